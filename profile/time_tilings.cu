// time_tilings: how long the kernel of register_rows takes with blocks of other sizes (profile/row_tilings.h).
//
//     time_tilings [--runs N] [--launches K|auto] B,N,d [B,N,d ...]
//
// Every tiling, Br query rows a block times Bc keys in shared memory at a time, on each shape, d up to 64: first it has
// to give register_rows' bytes on the same data, then it is timed like a kernel of time_kernels, whose options these
// are.
//
// Prints a JSON object in a line of its own for each tiling and shape, with the fields
//
//     rows, keys                   Br, Bc
//     batches, tokens, dim, flop   the shape, and 4*B*N*N*d
//     launches, seconds            as of time_kernels
//     registers                    of a thread
//     shared_bytes                 of a block
//     blocks_per_multiprocessor    as many fit at once
//     device, cuda                 the card's name and the CUDA version of the build
//
// or, for a tiling that is left out,
//
//     rows, keys, why
//
// which is on stderr too. Exit 64 wrong usage, 69 no GPU that runs it, 70 other bytes than register_rows', and 71 too
// little memory.
#include <getopt.h>

#include <cstdio>
#include <string>
#include <vector>

#include "profile/row_tilings.h"
#include "src/bench/command_line.h"
#include "src/bench/launch_timer.h"
#include "src/bench/output_check.h"
#include "src/bench/timing_line.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {
namespace {

constexpr const char* kUsage = "usage: time_tilings [--runs N] [--launches K|auto] B,N,d ...";
constexpr const char* kRung = "register_rows";

struct Request {
    SampleRequest samples;
    std::vector<Problem> problems;
};

// What the card makes of a tiling's code.
struct Fit {
    int registers;
    size_t shared_bytes;
    int blocks_per_multiprocessor;
};

Fit fit_of(const SizedTiling& tiling) {
    cudaFuncAttributes code;
    int blocks = 0;
    HW4_CUDA(cudaFuncGetAttributes(&code, tiling.function));
    HW4_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, tiling.function, tiling.threads, 0));
    return {code.numRegs, code.sharedSizeBytes, blocks};
}

// The whole output of one launch; a NaN where it wrote nothing.
std::vector<float> output_of(LaunchTimer::Launcher launcher, const CaseOnGpu& on_gpu) {
    const Stream stream = make_stream();
    std::vector<float> output(on_gpu.problem.floats_in(on_gpu.problem.output_rows()));
    const size_t bytes = on_gpu.output_rows() * on_gpu.out.stride() * sizeof(float);
    HW4_CUDA(cudaMemsetAsync(on_gpu.out.data(), 0xff, bytes, stream.get()));
    launcher(on_gpu.launch(Scratch()), stream.get());
    on_gpu.out.rows().copy_out(output.data(), on_gpu.output_rows(), stream.get());
    HW4_CUDA(cudaStreamSynchronize(stream.get()));
    return output;
}

std::string name_of(const SizedTiling& tiling) {
    return std::to_string(tiling.rows) + " rows, " + std::to_string(tiling.keys) + " keys";
}

void print_line(const SizedTiling& tiling, const Fit& fit, const Problem& problem, const Timing& timing) {
    std::printf("{\"rows\": %d, \"keys\": %d, %s, %s, \"registers\": %d, \"shared_bytes\": %zu, "
                "\"blocks_per_multiprocessor\": %d, %s}\n",
                tiling.rows, tiling.keys, problem_fields(problem).c_str(), timing_fields(timing).c_str(), fit.registers,
                fit.shared_bytes, fit.blocks_per_multiprocessor, machine_fields().c_str());
    std::fflush(stdout);
}

void leave_out(const SizedTiling& tiling, const std::string& why) {
    std::printf("{\"rows\": %d, \"keys\": %d, \"why\": \"%s\"}\n", tiling.rows, tiling.keys, why.c_str());
    std::fflush(stdout);
    std::fprintf(stderr, "time_tilings: left out: %s: %s\n", name_of(tiling).c_str(), why.c_str());
}

void time_problem(const Request& request, const Problem& problem, const Device& device) {
    const Kernel& rung = *find_kernel(kRung);
    const std::string unsupported = plan_of(rung, problem, device).why_not;
    if (!unsupported.empty()) throw Error(ExitCode::no_gpu, unsupported);
    const CaseOnGpu on_gpu(problem, device);
    const std::vector<float> expected = output_of(rung.run, on_gpu);
    for (const SizedTiling& tiling : row_tilings(problem.dim)) {
        const std::string why = why_not(tiling);
        if (!why.empty()) {
            leave_out(tiling, why);
            continue;
        }
        require_same_bytes(expected, output_of(tiling.launch, on_gpu), name_of(tiling));
        const LaunchTimer timer(tiling.launch, 0, on_gpu);
        print_line(tiling, fit_of(tiling), problem, timer.samples(request.samples));
    }
}

Request parse_request(int argc, char** argv) {
    static constexpr option kOptions[] = {{"runs", required_argument, nullptr, 'r'},
                                          {"launches", required_argument, nullptr, 'l'},
                                          {nullptr, 0, nullptr, 0}};
    Request request;
    opterr = 0; // one line of our own instead of getopt's
    for (int code; (code = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
        switch (code) {
        case 'r': request.samples.runs = parse_runs(optarg); break;
        case 'l': request.samples.launches = parse_launches(optarg); break;
        default: usage_error(kUsage);
        }
    }
    if (optind == argc) usage_error("need at least one shape B,N,d");
    for (int i = optind; i < argc; ++i) {
        request.problems.push_back(parse_shape(argv[i]));
        if (request.problems.back().dim > kMostTilingColumns)
            usage_error("shape '" + std::string(argv[i]) + "': the tilings take d up to " +
                        std::to_string(kMostTilingColumns));
    }
    return request;
}

void run(int argc, char** argv) {
    const Request request = parse_request(argc, argv);
    const Device device = current_device();
    for (const Problem& problem : request.problems) time_problem(request, problem, device);
}

} // namespace
} // namespace hw4::gpu

int main(int argc, char** argv) {
    return hw4::gpu::run_program("time_tilings", [&] { hw4::gpu::run(argc, argv); });
}
