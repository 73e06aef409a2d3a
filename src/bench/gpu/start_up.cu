// hw4 bench start-up: the cost of the GPU for a process before its work. The first use of something often costs more
// than the next.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "src/base/error.h"
#include "src/base/untouched_vector.h"
#include "src/bench/workbench.h"
#include "src/gpu/device/memory.h"
#include "src/gpu/engine.h"
#include "src/gpu/kernels.h"

namespace hw4::bench {
namespace {

constexpr size_t kPinnedBytes = size_t{32} << 20;
constexpr Problem kSmallProblem = {1, 128, 64};

template <class Work>
void step(const std::string& name, const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    std::printf("%9.3f ms  %s\n", taken.count(), name.c_str());
}

void pinning() {
    UntouchedVector<unsigned char> memory(kPinnedBytes); // huge pages, where the system has them
    std::memset(memory.data(), 1, memory.size());
    gpu::Pinned pinned;
    step("32 MiB of huge pages: pin", [&] { pinned = gpu::pin(memory.data(), memory.size()); });
    step("32 MiB of huge pages: unpin", [&] { pinned = gpu::Pinned(); });
}

void launching() {
    const gpu::Device device = gpu::current_device();
    const gpu::Kernel* kernel = gpu::choose_kernel(kSmallProblem, device, kF32);
    if (kernel == nullptr) throw Error(ExitCode::no_gpu, "no kernel for this GPU");
    const size_t scratch_bytes = gpu::plan_of(*kernel, kSmallProblem, device).scratch_bytes;
    const gpu::Scratch in = gpu::make_scratch(kSmallProblem.stored_input_bytes());
    const gpu::Scratch out = gpu::make_scratch(kSmallProblem.stored_output_bytes());
    const gpu::Scratch scratch = gpu::make_scratch(scratch_bytes);
    const auto row = static_cast<size_t>(kSmallProblem.dim);
    const gpu::Launch launch =
        gpu::launch_of(kSmallProblem, device, in.get(), row, out.get(), row, scratch.get(), scratch_bytes);
    HW4_CUDA(cudaMemset(in.get(), 0, kSmallProblem.stored_input_bytes()));
    HW4_CUDA(cudaDeviceSynchronize());
    for (const char* when : {"first", "second"}) {
        step(std::string("launch of ") + kernel->name + ", " + when, [&] { kernel->launch(launch, nullptr); });
        step("until it is done", [] { HW4_CUDA(cudaDeviceSynchronize()); });
    }
}

} // namespace

void say_gpu_start_up() {
    int count = 0;
    step("driver", [&] { static_cast<void>(HW4_CUDA_STATUS(cudaGetDeviceCount(&count))); });
    if (count == 0) throw Error(ExitCode::no_gpu, "no usable GPU: " + gpu::unusable().reason);
    step("context", [] { HW4_CUDA(cudaFree(nullptr)); });
    pinning();
    launching();
}

} // namespace hw4::bench
