// time_kernels: how long the GPU kernels take, by CUDA events, on data that is already on the GPU.
//
//     time_kernels [--kernel NAME | --chosen] [--runs N] [--launches K|auto] B,N,d [B,N,d ...]
//     time_kernels [--kernel NAME | --chosen] --once B,N,d [B,N,d ...]
//     time_kernels --list
//
// Each kernel of the table, or the named one, or the one that hw4 chooses, on each shape: launches for 0.1 s to warm
// up, then N samples (default 20; fewer, at least 3, where a sample takes longer than 50 ms). A sample is the time
// between two events over the K launches between them, back to back in one stream; default 1, and auto takes as many as
// last 10 ms. The data are those of the test cases (uniform in +-3), in pitched memory as in hw4. With --once each
// kernel is launched a single time, the first, for a profiler: the n-th launch is that of the n-th line. --list prints
// the kernels' names, a line each, and needs no GPU.
//
// Prints a JSON object in a line of its own for each kernel and shape, with the fields
//
//     kernel                  its name in the table
//     chosen                  whether hw4 takes this kernel for the shape on this card
//     batches, tokens, dim    the shape
//     flop                    4*B*N*N*d, of one launch
//     launches                K, in each sample
//     seconds                 every sample: seconds of one launch, in the order measured
//     device, cuda            the card's name and the CUDA version of the build
//
// What a kernel cannot take is left out, with a line on stderr that says why.
#include <getopt.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "../src/case_values.h"
#include "../src/gpu/check.h"
#include "../src/gpu/kernels.h"
#include "../src/gpu/memory.h"
#include "../src/numbers.h"
#include "sampling.h"

namespace hw4::gpu {
namespace {

constexpr const char* kUsage =
    "usage: time_kernels [--kernel NAME | --chosen] [--runs N] [--launches K|auto] [--once] B,N,d ... | --list";
constexpr int kMostRuns = 1000000;

struct Request {
    std::string kernel; // empty: every one
    bool chosen = false;
    bool once = false; // no warm-up, one sample of one launch
    bool list = false; // nothing else
    int runs = 20;
    int launches = 1; // in a sample; 0: by launches_for
    std::vector<Shape> shapes;
};

[[noreturn]] void usage_error(const std::string& what) { throw Error(ExitCode::usage, what); }

Shape parse_shape(const std::string& text) {
    std::array<int64_t, 3> sizes{};
    std::istringstream stream(text);
    for (int64_t& size : sizes) {
        std::string field;
        std::getline(stream, field, ',');
        const auto value = whole_number(field, 1, 1 << 30);
        if (!value) usage_error("shape '" + text + "': need B,N,d");
        size = *value;
    }
    if (stream.peek() != EOF) usage_error("shape '" + text + "': need B,N,d");
    return {sizes[0], sizes[1], sizes[2]};
}

// A case on the GPU.
struct Problem {
    Shape shape;
    PitchedMatrix qkv;
    PitchedMatrix out;

    explicit Problem(const Shape& s)
        : shape(s), qkv(rows(3), static_cast<size_t>(s.dim)), out(rows(1), static_cast<size_t>(s.dim)) {
        std::vector<float> values(static_cast<size_t>(s.batches) * s.batch_input_floats());
        fill_case_values({s, CaseKind::uniform, 1}, 0, values.size(), values.data());
        qkv.copy_in(values.data(), rows(3), nullptr);
        HW4_CUDA(cudaDeviceSynchronize());
    }

    size_t rows(size_t matrices) const {
        return matrices * static_cast<size_t>(shape.batches) * static_cast<size_t>(shape.tokens);
    }

    KernelArgs args(const Scratch& scratch) const {
        return args_of(shape, qkv.data(), qkv.stride(), out.data(), out.stride(), scratch.get());
    }
};

// A kernel on a case, timed by events.
class LaunchTimer {
public:
    LaunchTimer(const Kernel& kernel, const Problem& problem)
        : kernel_(kernel), scratch_(make_scratch(kernel.scratch_bytes(problem.shape, current_device()))),
          args_(problem.args(scratch_)), stream_(make_stream()), start_(make_event()), stop_(make_event()) {}

    // Seconds of each of so many launches, back to back.
    double sample(int launches) const {
        HW4_CUDA(cudaEventRecord(start_.get(), stream_.get()));
        for (int i = 0; i < launches; ++i) kernel_.launch(args_, stream_.get());
        HW4_CUDA(cudaEventRecord(stop_.get(), stream_.get()));
        HW4_CUDA(cudaEventSynchronize(stop_.get()));
        float milliseconds = 0;
        HW4_CUDA(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()));
        return milliseconds * 1e-3 / launches;
    }

    // Seconds of the fastest launch of the warm-up.
    double warm_up() const {
        double least = sample(1);
        for (double busy = least; busy < kWarmUpSeconds;) {
            const double seconds = sample(1);
            busy += seconds;
            least = std::min(least, seconds);
        }
        return least;
    }

private:
    const Kernel& kernel_;
    Scratch scratch_;
    KernelArgs args_;
    Stream stream_;
    Event start_;
    Event stop_;
};

struct Timing {
    int launches; // in a sample
    std::vector<double> seconds;
};

Timing time_kernel(const Kernel& kernel, const Problem& problem, const Request& request) {
    const LaunchTimer timer(kernel, problem);
    if (request.once) return {1, {timer.sample(1)}};
    const double launch_seconds = timer.warm_up();
    Timing timing{request.launches > 0 ? request.launches : launches_for(launch_seconds), {}};
    const int runs = runs_for(launch_seconds * timing.launches, request.runs);
    for (int run = 0; run < runs; ++run) timing.seconds.push_back(timer.sample(timing.launches));
    return timing;
}

void print_line(const Kernel& kernel, bool chosen, const Shape& shape, const Timing& timing) {
    std::printf("{\"kernel\": \"%s\", \"chosen\": %s, \"batches\": %lld, \"tokens\": %lld, \"dim\": %lld, "
                "\"flop\": %.9g, \"launches\": %d, \"seconds\": [",
                kernel.name, chosen ? "true" : "false", static_cast<long long>(shape.batches),
                static_cast<long long>(shape.tokens), static_cast<long long>(shape.dim), shape.flops(),
                timing.launches);
    for (size_t i = 0; i < timing.seconds.size(); ++i) std::printf("%s%.9g", i == 0 ? "" : ", ", timing.seconds[i]);
    std::printf("], \"device\": \"%s\", \"cuda\": \"%d.%d\"}\n", device_name().c_str(), CUDART_VERSION / 1000,
                CUDART_VERSION % 1000 / 10);
    std::fflush(stdout);
}

int parse_count(const char* option, const std::string& text, int most) {
    const auto value = whole_number(text, 1, most);
    if (!value)
        usage_error("--" + std::string(option) + " '" + text + "': need a whole number from 1 to " +
                    std::to_string(most));
    return static_cast<int>(*value);
}

Request parse_request(int argc, char** argv) {
    static constexpr option kOptions[] = {{"kernel", required_argument, nullptr, 'k'},
                                          {"chosen", no_argument, nullptr, 'c'},
                                          {"once", no_argument, nullptr, 'o'},
                                          {"list", no_argument, nullptr, 'n'},
                                          {"runs", required_argument, nullptr, 'r'},
                                          {"launches", required_argument, nullptr, 'l'},
                                          {nullptr, 0, nullptr, 0}};
    Request request;
    opterr = 0; // one line of our own instead of getopt's
    for (int code; (code = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
        switch (code) {
        case 'k': request.kernel = optarg; break;
        case 'c': request.chosen = true; break;
        case 'o': request.once = true; break;
        case 'n': request.list = true; break;
        case 'r': request.runs = parse_count("runs", optarg, kMostRuns); break;
        case 'l':
            request.launches = std::string(optarg) == "auto" ? 0 : parse_count("launches", optarg, kMostLaunches);
            break;
        default: usage_error(kUsage);
        }
    }
    if (request.list) return request;
    if (request.chosen && !request.kernel.empty()) usage_error("--kernel and --chosen: take one of the two");
    if (!request.kernel.empty() && find_kernel(request.kernel) == nullptr)
        usage_error("no kernel '" + request.kernel + "'");
    if (optind == argc) usage_error("need at least one shape B,N,d");
    for (int i = optind; i < argc; ++i) request.shapes.push_back(parse_shape(argv[i]));
    return request;
}

void time_shape(const Request& request, const Shape& shape) {
    const Device device = current_device();
    const Kernel* const chosen = choose_kernel(shape, device);
    if (request.chosen && chosen == nullptr) {
        std::fprintf(stderr, "time_kernels: left out: %s\n", why_not(kernels().front(), shape, device).c_str());
        return;
    }
    const Problem problem(shape);
    for (const Kernel& kernel : kernels()) {
        if (request.chosen && &kernel != chosen) continue;
        if (!request.kernel.empty() && request.kernel != kernel.name) continue;
        const std::string unsupported = why_not(kernel, shape, device);
        if (unsupported.empty())
            print_line(kernel, &kernel == chosen, shape, time_kernel(kernel, problem, request));
        else
            std::fprintf(stderr, "time_kernels: left out: %s\n", unsupported.c_str());
    }
}

void run(int argc, char** argv) {
    const Request request = parse_request(argc, argv);
    if (request.list)
        for (const Kernel& kernel : kernels()) std::printf("%s\n", kernel.name);
    for (const Shape& shape : request.shapes) time_shape(request, shape);
}

} // namespace
} // namespace hw4::gpu

int main(int argc, char** argv) {
    try {
        hw4::gpu::run(argc, argv);
        return 0;
    } catch (const hw4::Error& error) {
        std::fprintf(stderr, "time_kernels: %s\n", error.what());
        return static_cast<int>(error.code());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "time_kernels: %s\n", error.what());
        return static_cast<int>(hw4::ExitCode::internal);
    }
}
