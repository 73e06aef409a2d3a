// The GPU engine of a build without nvcc: it reports that there is no GPU code.
#include "src/gpu/engine.h"

namespace hw4::gpu {
namespace {
constexpr const char* kAbsent = "hw4 was built without CUDA";
}

std::vector<KernelInfo> kernel_list() { return {}; }
Unusable unusable(const SpanRecorder&, int) { return {kAbsent, ExitCode::no_gpu}; }
int card_count() { return 0; }
std::string unsupported_reason(const Problem&, const std::string&, const Contract&) { return kAbsent; }
std::string unsupported_reason(const Problem&, const Hw4Kernel&) { return kAbsent; }
std::string build_description() { return "built without CUDA"; }
std::unique_ptr<Engine> make_engine(const EngineRequest&) { throw Error(ExitCode::no_gpu, kAbsent); }

} // namespace hw4::gpu
