// The GPU's workbench of a build without nvcc: it says that it is not there.
#include "src/base/error.h"
#include "src/bench/workbench.h"

namespace hw4::bench {

std::unique_ptr<Workbench> gpu_workbench() { throw Error(ExitCode::no_gpu, "hw4 was built without CUDA"); }

} // namespace hw4::bench
