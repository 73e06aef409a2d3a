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
    std::vector<Shape> shapes;
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
std::vector<float> output_of(LaunchTimer::Launch launch, const Problem& problem) {
    const Stream stream = make_stream();
    std::vector<float> output(problem.rows(1) * static_cast<size_t>(problem.shape.dim));
    HW4_CUDA(cudaMemsetAsync(problem.out.data(), 0xff, problem.out.bytes(), stream.get()));
    launch(problem.args(Scratch()), stream.get());
    problem.out.copy_out(output.data(), problem.rows(1), stream.get());
    HW4_CUDA(cudaStreamSynchronize(stream.get()));
    return output;
}

std::string name_of(const SizedTiling& tiling) {
    return std::to_string(tiling.rows) + " rows, " + std::to_string(tiling.keys) + " keys";
}

void print_line(const SizedTiling& tiling, const Fit& fit, const Shape& shape, const Timing& timing) {
    std::printf("{\"rows\": %d, \"keys\": %d, %s, %s, \"registers\": %d, \"shared_bytes\": %zu, "
                "\"blocks_per_multiprocessor\": %d, %s}\n",
                tiling.rows, tiling.keys, shape_fields(shape).c_str(), timing_fields(timing).c_str(), fit.registers,
                fit.shared_bytes, fit.blocks_per_multiprocessor, machine_fields().c_str());
    std::fflush(stdout);
}

void leave_out(const SizedTiling& tiling, const std::string& why) {
    std::printf("{\"rows\": %d, \"keys\": %d, \"why\": \"%s\"}\n", tiling.rows, tiling.keys, why.c_str());
    std::fflush(stdout);
    std::fprintf(stderr, "time_tilings: left out: %s: %s\n", name_of(tiling).c_str(), why.c_str());
}

void time_shape(const Request& request, const Shape& shape) {
    const Kernel& rung = *find_kernel(kRung);
    const std::string unsupported = why_not(rung, shape, current_device());
    if (!unsupported.empty()) throw Error(ExitCode::no_gpu, unsupported);
    const Problem problem(shape);
    const std::vector<float> expected = output_of(rung.launch, problem);
    for (const SizedTiling& tiling : row_tilings(shape.dim)) {
        const std::string why = why_not(tiling);
        if (!why.empty()) {
            leave_out(tiling, why);
            continue;
        }
        require_same_bytes(expected, output_of(tiling.launch, problem), name_of(tiling));
        const LaunchTimer timer(tiling.launch, 0, problem);
        print_line(tiling, fit_of(tiling), shape, timer.samples(request.samples));
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
        request.shapes.push_back(parse_shape(argv[i]));
        if (request.shapes.back().dim > kMostTilingColumns)
            usage_error("shape '" + std::string(argv[i]) + "': the tilings take d up to " +
                        std::to_string(kMostTilingColumns));
    }
    return request;
}

void run(int argc, char** argv) {
    const Request request = parse_request(argc, argv);
    for (const Shape& shape : request.shapes) time_shape(request, shape);
}

} // namespace
} // namespace hw4::gpu

int main(int argc, char** argv) {
    return hw4::gpu::run_program("time_tilings", [&] { hw4::gpu::run(argc, argv); });
}
