// time_kernels: how long the GPU kernels take, by CUDA events, on data that is already on the GPU.
//
//     time_kernels [--kernel NAME] [--runs N] B,N,d [B,N,d ...]
//
// Each kernel of the table (or the named one) on each shape: warm-up launches, then N timed ones. One line of JSON for
// each pair, with every sample. The data are those of the test cases (uniform in +-3), in pitched memory as in hw4.
#include <getopt.h>

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

namespace hw4::gpu {
namespace {

constexpr int kWarmUps = 3;

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

    KernelArgs args() const {
        return {qkv.data(),
                qkv.stride(),
                out.data(),
                out.stride(),
                shape.batches,
                shape.tokens,
                static_cast<int>(shape.dim),
                scale_for(shape.dim)};
    }
};

std::vector<double> time_launches(const Kernel& kernel, const Problem& problem, int runs) {
    const Stream stream = make_stream();
    const Event start = make_event();
    const Event stop = make_event();
    std::vector<double> seconds;
    for (int run = -kWarmUps; run < runs; ++run) {
        HW4_CUDA(cudaEventRecord(start.get(), stream.get()));
        kernel.launch(problem.args(), stream.get());
        HW4_CUDA(cudaEventRecord(stop.get(), stream.get()));
        HW4_CUDA(cudaEventSynchronize(stop.get()));
        float milliseconds = 0;
        HW4_CUDA(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()));
        if (run >= 0) seconds.push_back(milliseconds * 1e-3);
    }
    return seconds;
}

void print_line(const Kernel& kernel, const Shape& shape, const std::vector<double>& seconds) {
    std::printf(
        "{\"kernel\": \"%s\", \"batches\": %lld, \"tokens\": %lld, \"dim\": %lld, \"flop\": %.9g, \"seconds\": [",
        kernel.name, static_cast<long long>(shape.batches), static_cast<long long>(shape.tokens),
        static_cast<long long>(shape.dim), shape.flops());
    for (size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.9g", i == 0 ? "" : ", ", seconds[i]);
    std::printf("]}\n");
    std::fflush(stdout);
}

void run(int argc, char** argv) {
    static constexpr option kOptions[] = {{"kernel", required_argument, nullptr, 'k'},
                                          {"runs", required_argument, nullptr, 'r'},
                                          {nullptr, 0, nullptr, 0}};
    std::string name;
    int runs = 20;
    for (int code; (code = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
        if (code == 'k')
            name = optarg;
        else if (code == 'r' && whole_number(optarg, 1, 1000000))
            runs = static_cast<int>(*whole_number(optarg, 1, 1000000));
        else
            usage_error("usage: time_kernels [--kernel NAME] [--runs N] B,N,d ...");
    }
    if (!name.empty() && find_kernel(name) == nullptr) usage_error("no kernel '" + name + "'");
    if (optind == argc) usage_error("need at least one shape B,N,d");
    for (int i = optind; i < argc; ++i) {
        const Problem problem(parse_shape(argv[i]));
        for (const Kernel& kernel : kernels()) {
            if (!name.empty() && name != kernel.name) continue;
            const std::string unsupported = why_not(kernel, problem.shape, current_device());
            if (unsupported.empty())
                print_line(kernel, problem.shape, time_launches(kernel, problem, runs));
            else
                std::fprintf(stderr, "time_kernels: left out: %s\n", unsupported.c_str());
        }
    }
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
