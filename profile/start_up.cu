// start_up: what a program pays for the GPU before and after its work, step by step.
//
//     start_up [--quick-exit]
//
// Prints milliseconds for each step, in the order in which they happened: the first use of something often costs more
// than the next. --quick-exit ends the process without the libraries' own clean-up; how long either end takes shows
// only from outside (report/measure measures both).
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "src/gpu/device/memory.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr Problem kSmallProblem = {1, 128, 64};

template <class Work>
auto step(const std::string& name, const Work& work) {
    struct Line {
        std::string name;
        std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
        ~Line() {
            const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
            std::printf("%9.3f ms  %s\n", taken.count(), name.c_str());
        }
    };
    const Line line{name};
    return work();
}

// Memory of the host, already in use, in pages of one kind.
class Mapping {
public:
    Mapping(size_t bytes, int advice) : bytes_(bytes) {
        data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data_ == MAP_FAILED) throw Error(ExitCode::out_of_memory, with_errno("cannot map memory"));
        (void)::madvise(data_, bytes, advice);
    }
    ~Mapping() { ::munmap(data_, bytes_); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    float* floats() const { return static_cast<float*>(data_); }
    void* data() const { return data_; }
    size_t bytes() const { return bytes_; }

private:
    size_t bytes_;
    void* data_;
};

void pinning(const char* pages, int advice) {
    const Mapping memory(32 * kMiB, advice);
    const std::string what = std::string("32 MiB of ") + pages + " pages: ";
    step(what + "first touch", [&] { std::memset(memory.data(), 1, memory.bytes()); });
    Pinned pinned = step(what + "pin", [&] { return pin(memory.data(), memory.bytes()); });
    step(what + "unpin", [&] { pinned = Pinned(); });
}

void allocation(size_t mebibytes) {
    const std::string what = std::to_string(mebibytes) + " MiB on the GPU: ";
    void* memory = nullptr;
    step(what + "allocate", [&] { HW4_CUDA(cudaMalloc(&memory, mebibytes * kMiB)); });
    step(what + "free", [&] { HW4_CUDA(cudaFree(memory)); });
}

void copying() {
    PitchedMatrix matrix(16 * kMiB / 256, 64, Copies::linear);
    const Mapping plain(16 * kMiB, MADV_HUGEPAGE);
    const Mapping memory(16 * kMiB, MADV_HUGEPAGE);
    std::memset(plain.data(), 1, plain.bytes());
    std::memset(memory.data(), 1, memory.bytes());
    const Pinned pinned = pin(memory.data(), memory.bytes());
    const auto copy_in = [&](const Mapping& from) {
        matrix.copy_in(from.floats(), 16 * kMiB / 256, nullptr);
        HW4_CUDA(cudaStreamSynchronize(nullptr));
    };
    for (const char* when : {"first", "second"}) {
        step(std::string("16 MiB in from plain memory, ") + when, [&] { copy_in(plain); });
        step(std::string("16 MiB in from pinned memory, ") + when, [&] { copy_in(memory); });
    }
}

void launching() {
    const Device device = current_device();
    const Kernel* kernel = choose_kernel(kSmallProblem, device, kF32);
    if (kernel == nullptr) throw Error(ExitCode::no_gpu, "no kernel for this card");
    const PitchedMatrix qkv(3 * 128, 64);
    const PitchedMatrix out(128, 64);
    const Scratch scratch = make_scratch(plan_of(*kernel, kSmallProblem, device).scratch_bytes);
    const Launch launch =
        launch_of(kSmallProblem, device, qkv.data(), qkv.stride(), out.data(), out.stride(), scratch.get());
    HW4_CUDA(cudaMemset(qkv.data(), 0, qkv.bytes()));
    HW4_CUDA(cudaDeviceSynchronize());
    for (const char* when : {"first", "second"}) {
        step(std::string("launch of ") + kernel->name + ", " + when, [&] { kernel->launch(launch, nullptr); });
        step("until it is done", [] { HW4_CUDA(cudaDeviceSynchronize()); });
    }
}

void run() {
    int count = 0;
    step("driver", [&] { HW4_CUDA(cudaGetDeviceCount(&count)); });
    step("context", [] { HW4_CUDA(cudaFree(nullptr)); });
    step("attributes of the card", [] { current_device(); });
    step("name of the card", [] { device_name(); });
    const std::vector<Stream> streams = step("four streams", [] {
        std::vector<Stream> made;
        for (int i = 0; i < 4; ++i) made.push_back(make_stream());
        return made;
    });
    const std::vector<Event> events = step("64 events", [] {
        std::vector<Event> made;
        for (int i = 0; i < 64; ++i) made.push_back(make_event());
        return made;
    });
    for (const size_t mebibytes : {1, 16, 64, 128, 256}) allocation(mebibytes);
    pinning("huge", MADV_HUGEPAGE);
    pinning("small", MADV_NOHUGEPAGE);
    void* memory = nullptr;
    step("32 MiB from cudaMallocHost", [&] { HW4_CUDA(cudaMallocHost(&memory, 32 * kMiB)); });
    step("32 MiB to cudaFreeHost", [&] { HW4_CUDA(cudaFreeHost(memory)); });
    copying();
    launching();
}

} // namespace
} // namespace hw4::gpu

int main(int argc, char** argv) {
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick-exit") == 0;
    if (argc > 1 && !quick) {
        std::fprintf(stderr, "usage: start_up [--quick-exit]\n");
        return static_cast<int>(hw4::ExitCode::usage);
    }
    try {
        hw4::gpu::run();
    } catch (const hw4::Error& error) {
        std::fprintf(stderr, "start_up: %s\n", error.what());
        return static_cast<int>(error.code());
    }
    std::fflush(stdout);
    if (quick) ::_exit(0);
    return 0;
}
