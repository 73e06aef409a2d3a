// The GPU's workbench in a build without nvcc: reports that it is missing.
#include "src/base/error.h"
#include "src/bench/accumulate.h"
#include "src/bench/naive.h"
#include "src/bench/operations.h"
#include "src/bench/summation.h"
#include "src/bench/workbench.h"

namespace hw4::bench {

namespace {
[[noreturn]] void fail() { throw Error(ExitCode::no_gpu, "hw4 was built without CUDA"); }
} // namespace

std::unique_ptr<Workbench> gpu_workbench(const Hw4Kernel*) { fail(); }
std::unique_ptr<NaiveAttention> gpu_naive() { fail(); }
std::unique_ptr<Yardstick> gpu_yardstick(void*) { fail(); }
void say_gpu_start_up() { fail(); }
std::vector<float> gpu_sums(const Addends&) { fail(); }
std::unique_ptr<FloatMemory> card_floats(size_t) { fail(); }
std::unique_ptr<FloatMemory> pinned_floats(size_t) { fail(); }
std::string card_identity() { fail(); }
std::unique_ptr<Summation> nccl_summation(SumNode, Ranks&) { fail(); }

} // namespace hw4::bench
