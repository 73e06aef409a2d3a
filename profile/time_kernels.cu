// time_kernels: how long the GPU kernels take, by CUDA events, on data that is already on the GPU.
//
//     time_kernels [--contract NAME] [--backward] [--kernel NAME | --chosen] [--causal] [--kind KIND ...]
//                  [--elements NAME] [--runs N] [--launches K|auto] [--scratch-mib N|all]
//                  B,N,d [B,N,d ...]
//     time_kernels [--contract NAME] [--backward] [--kernel NAME | --chosen] [--causal] [--kind KIND ...]
//                  [--elements NAME] [--scratch-mib N|all] --once B,N,d [B,N,d ...]
//     time_kernels [--contract NAME] [--backward] --list
//     ... [--kernel-file FILE] [--json | --csv | --table]
//
// Each kernel of the contract (default f32) in the table, or the named one, or the one that hw4 chooses, on each shape:
// launches for 0.1 s to warm up, then N samples (default 20; fewer, at least 3, where a sample takes longer than 50
// ms). A sample is the time between two events over the K launches between them, back to back in one stream; default 1,
// and auto takes as many as last 10 ms. The data are of the kind named, those that `testcases/generate --kind KIND
// --seed 1` writes, in pitched memory as in hw4; default uniform in +-3, as the test cases, and where several kinds are
// named each shape has one after the other. With --once each kernel is launched a single time, the first, for a
// profiler: the n-th launch is that of the n-th line (of backward, which is several kernels, the n-th of the last).
// --causal: under that mask, each query sees the keys up to its own. --list prints the kernels' names, a line each, and
// needs no GPU.
//
// --elements bf16 or fp16: operands and output have that type, packed as in a tensor. Default: float32, in pitched
// memory as in hw4. Where the kernel takes another element, converting the tensors is part of a launch.
//
// --kernel-file: one more kernel of f32's table, its last, in a shared library (src/gpu/hw4_kernel.h). hw4 chooses it
// for no shape.
//
// --backward: the kernels of backward, for whom O and the statistics of its rows are there: forward is computed once
// for each shape, before and outside of the samples. Of scratch memory a launch has what its kernel needs and, up to
// --scratch-mib in all, what makes it faster; default all of that.
//
// Prints on a terminal a table, a row for each kernel, shape and kind: median and the times below which a fifth and
// four fifths of the samples lie, with a * after the kernel that hw4 takes. --csv prints the same for a spreadsheet.
// Elsewhere than on a terminal, or with --json, a JSON object in a line of its own, with the fields
//
//     kernel                  its name in the table
//     chosen                  whether hw4 takes this kernel for the shape on this card
//     batches, tokens, dim    the shape
//     flop                    4*B*N*N*d, of one launch; 2*B*N*(N+1)*d under the causal mask; of backward 2.5 times that
//     operation               forward or backward
//     mask                    none or causal
//     kind                    of the data, with its number if it takes one: "normal:3"
//     elements                what the operands are on the GPU: float32, bf16 or fp16
//     scratch_bytes           that a launch has
//     launches                K, in each sample
//     seconds                 every sample: seconds of one launch, in the order measured
//     device, cuda            the card's name and the CUDA version of the build
//
// What a kernel cannot take is left out, with a line on stderr that says why.
#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/bench/command_line.h"
#include "src/bench/launch_timer.h"
#include "src/bench/timing_line.h"
#include "src/bench/timing_table.h"
#include "src/gpu/kernel_file.h"
#include "src/gpu/kernels.h"
#include "src/gpu/slot_plan.h"

namespace hw4::gpu {
namespace {

constexpr const char* kUsage =
    "usage: time_kernels [--contract NAME] [--backward] [--kernel NAME | --chosen] [--causal] [--kind KIND ...] "
    "[--elements NAME] [--kernel-file FILE] [--runs N] [--launches K|auto] [--scratch-mib N|all] "
    "[--once] [--json | "
    "--csv | --table] "
    "B,N,d ... | --list";

struct Request {
    const Contract* contract = &kF32;
    const Operation* operation = &kForward;
    std::string kernel; // empty: every one of both
    std::string kernel_file;
    std::vector<Kernel> table; // of both, and of the file
    bool chosen = false;
    Mask mask = Mask::none;
    Element element = Element::float32; // of the operands
    bool once = false;                  // no warm-up, one sample of one launch
    bool list = false;                  // nothing else
    size_t most_scratch = std::numeric_limits<size_t>::max();
    bool help = false; // likewise
    TimingForm form = ::isatty(STDOUT_FILENO) == 1 ? TimingForm::table : TimingForm::json;
    SampleRequest samples;
    std::vector<Distribution> kinds; // of the data
    std::vector<Problem> problems;
};

Timing times_of(const LaunchTimer& timer, const Request& request) {
    if (request.once) return {1, {timer.sample(1)}};
    return timer.samples(request.samples);
}

struct Data {
    Problem problem;
    Distribution kind;
};

void print_head(TimingForm form) {
    if (form == TimingForm::json) return;
    std::fputs((form == TimingForm::table ? table_head() : csv_head()).c_str(), stdout);
    std::fflush(stdout);
}

void print_row(TimingForm form, const TimedKernel& row) {
    std::fputs((form == TimingForm::table ? table_row(row) : csv_row(row)).c_str(), stdout);
    std::fflush(stdout);
}

void print_line(const Kernel& kernel, bool chosen, const Data& data, size_t scratch_bytes, const Timing& timing) {
    std::printf("{\"kernel\": \"%s\", \"chosen\": %s, %s, %s, %s, %s, %s, %s, %s, %s}\n", kernel.name,
                chosen ? "true" : "false", problem_fields(data.problem).c_str(), operation_field(data.problem).c_str(),
                mask_field(data.problem).c_str(), kind_field(data.kind).c_str(),
                elements_field(data.problem.element).c_str(), scratch_field(scratch_bytes).c_str(),
                timing_fields(timing).c_str(), machine_fields().c_str());
    std::fflush(stdout);
}

std::vector<Kernel> table_of(const Request& request) {
    std::vector<Kernel> table = kernels_of(*request.contract, *request.operation);
    if (request.kernel_file.empty()) return table;
    const Kernel kernel = kernel_of_file(load_kernel_file(request.kernel_file));
    if (kernel.under != request.contract || kernel.does != request.operation)
        usage_error("--kernel-file: has a kernel of " + std::string(kernel.under->name) + " " + kernel.does->name);
    table.push_back(kernel);
    return table;
}

void require_kernel(const std::string& name, const std::vector<Kernel>& table, const Contract& contract,
                    const Operation& operation) {
    const Kernel* const in_table = find_kernel(name, table);
    const Kernel* const kernel = in_table != nullptr ? in_table : find_kernel(name);
    if (kernel == nullptr) usage_error("no kernel '" + name + "'");
    if (kernel->under != &contract)
        usage_error("kernel '" + name + "' computes " + kernel->under->name + ", not " + contract.name);
    if (kernel->does != &operation)
        usage_error("kernel '" + name + "' computes " + kernel->does->name + ", not " + operation.name);
}

Request parse_request(int argc, char** argv) {
    static constexpr option kOptions[] = {{"contract", required_argument, nullptr, 'a'},
                                          {"arith", required_argument, nullptr, 'a'},
                                          {"backward", no_argument, nullptr, 'b'},
                                          {"kernel", required_argument, nullptr, 'k'},
                                          {"kernel-file", required_argument, nullptr, 'f'},
                                          {"chosen", no_argument, nullptr, 'c'},
                                          {"causal", no_argument, nullptr, 'm'},
                                          {"kind", required_argument, nullptr, 'd'},
                                          {"elements", required_argument, nullptr, 'e'},
                                          {"once", no_argument, nullptr, 'o'},
                                          {"list", no_argument, nullptr, 'n'},
                                          {"json", no_argument, nullptr, 'j'},
                                          {"csv", no_argument, nullptr, 'v'},
                                          {"table", no_argument, nullptr, 't'},
                                          {"help", no_argument, nullptr, 'h'},
                                          {"runs", required_argument, nullptr, 'r'},
                                          {"launches", required_argument, nullptr, 'l'},
                                          {"scratch-mib", required_argument, nullptr, 's'},
                                          {nullptr, 0, nullptr, 0}};
    Request request;
    opterr = 0; // one line of our own instead of getopt's
    for (int code; (code = getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) {
        switch (code) {
        case 'a':
            request.contract = find_contract(optarg);
            if (request.contract == nullptr) usage_error(unknown_contract(optarg));
            break;
        case 'b': request.operation = &kBackward; break;
        case 'k': request.kernel = optarg; break;
        case 'f': request.kernel_file = optarg; break;
        case 'c': request.chosen = true; break;
        case 'm': request.mask = Mask::causal; break;
        case 'd': request.kinds.push_back(distribution_of(optarg)); break;
        case 'e': request.element = parse_element(optarg); break;
        case 'o': request.once = true; break;
        case 'n': request.list = true; break;
        case 'j': request.form = TimingForm::json; break;
        case 'v': request.form = TimingForm::csv; break;
        case 't': request.form = TimingForm::table; break;
        case 'h': request.help = true; return request;
        case 'r': request.samples.runs = parse_runs(optarg); break;
        case 'l': request.samples.launches = parse_launches(optarg); break;
        case 's': request.most_scratch = parse_scratch(optarg); break;
        default: usage_error(kUsage);
        }
    }
    request.table = table_of(request);
    if (request.list) return request;
    if (request.chosen && !request.kernel.empty()) usage_error("--kernel and --chosen: take one of the two");
    if (!request.kernel.empty()) require_kernel(request.kernel, request.table, *request.contract, *request.operation);
    if (optind == argc) usage_error("need at least one shape B,N,d");
    for (int i = optind; i < argc; ++i) {
        request.problems.push_back(parse_shape(argv[i]));
        request.problems.back().mask = request.mask;
        request.problems.back().operation = request.operation;
        request.problems.back().element = request.element;
    }
    if (request.kinds.empty()) request.kinds.emplace_back(CaseKind::uniform);
    return request;
}

void time_case(const Request& request, const Data& data, const Device& device) {
    const Problem& problem = data.problem;
    const Kernel* const best = choose_kernel(problem, device, *request.contract);
    const std::string chosen = best == nullptr ? "" : best->name;
    const std::vector<Kernel>& list = request.table;
    if (list.empty())
        usage_error("no kernel computes " + std::string(request.contract->name) + " " + request.operation->name);
    if (request.chosen && chosen.empty()) {
        std::fprintf(stderr, "time_kernels: left out: %s\n", plan_of(list.front(), problem, device).why_not.c_str());
        return;
    }
    const CaseOnGpu on_gpu(problem, device, data.kind);
    std::optional<ForwardOnGpu> forward;
    for (const Kernel& kernel : list) {
        if (request.chosen && kernel.name != chosen) continue;
        if (!request.kernel.empty() && request.kernel != kernel.name) continue;
        const Plan plan = plan_of(kernel, problem, device);
        std::string lacking = plan.why_not.empty() ? why_not(*request.contract, problem) : plan.why_not;
        if (kernel.does == &kBackward && loses_output(kernel, problem.element))
            lacking = std::string(kernel.name) + " needs O as float32, and " + name_of(problem.element) + " rounds it";
        if (!lacking.empty()) {
            std::fprintf(stderr, "time_kernels: left out: %s\n", lacking.c_str());
            continue;
        }
        if (kernel.does == &kBackward && !forward) forward.emplace(on_gpu, *request.contract);
        const size_t scratch_bytes = scratch_for(plan.scratch_bytes, plan.most_scratch, request.most_scratch, 1);
        const auto launch = [&](const Launch& of, cudaStream_t stream) { kernel.launch(of, stream); };
        const Timing timing =
            times_of(LaunchTimer(launch, scratch_bytes, on_gpu, forward ? &*forward : nullptr), request);
        if (request.form == TimingForm::json)
            print_line(kernel, kernel.name == chosen, data, scratch_bytes, timing);
        else
            print_row(request.form, {kernel.name, kernel.name == chosen, problem, data.kind, timing});
    }
}

void run(int argc, char** argv) {
    const Request request = parse_request(argc, argv);
    if (request.help) {
        std::printf("%s\n", kUsage);
        return;
    }
    if (request.list) {
        for (const Kernel& kernel : request.table) std::printf("%s\n", kernel.name);
        return;
    }
    const Device device = current_device();
    print_head(request.form);
    for (const Problem& problem : request.problems)
        for (const Distribution& kind : request.kinds) time_case(request, {problem, kind}, device);
}

} // namespace
} // namespace hw4::gpu

int main(int argc, char** argv) {
    return hw4::gpu::run_program("time_kernels", [&] { hw4::gpu::run(argc, argv); });
}
