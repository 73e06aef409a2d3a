// The GPU side in a build without nvcc. It is never asked to run.
#include "src/base/error.h"
#include "tests/fuzz/side.h"

namespace hw4::fuzz {

std::unique_ptr<Side> make_gpu_side() { throw Error(ExitCode::no_gpu, "built without CUDA"); }

} // namespace hw4::fuzz
