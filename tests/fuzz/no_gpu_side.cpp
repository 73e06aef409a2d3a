// The GPU's side in a build without nvcc, where nobody gets as far as to ask for it.
#include "src/base/error.h"
#include "tests/fuzz/side.h"

namespace hw4::fuzz {

std::unique_ptr<Side> make_gpu_side() { throw Error(ExitCode::no_gpu, "built without CUDA"); }

} // namespace hw4::fuzz
