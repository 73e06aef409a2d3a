// seq: the sequential reference. O = softmax(Q K^T / sqrt(d)) V, or its gradients, one thread, plain loops, in the
// order that the contract's forward.h and backward.h in src/contracts state. Every other engine of this project must
// print the bytes that this program prints; under bf16 and fp16 they are what the others must be near to.
//
//     seq [--time] [--contract f32|fixed|fixed16|bf16|fp16] [--causal] [--backward] [--lse FILE] INPUT OUTPUT
//     seq --help | --version
//
// "-" is standard input and output.
//
// --causal: under the causal mask (src/problem/mask.h), whatever INPUT asks for.
// --backward: INPUT has Q, K, V, dO of each batch, OUTPUT gets dQ, dK, dV.
// --lse: the logsumexp of each row of scores too, float32, in the order of the rows (src/contracts/logsumexp.h).
// --time prints the seconds of the arithmetic alone, without reading, checking and writing: "arithmetic_seconds 1.25".
#include <getopt.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/base/refused_option.h"
#include "src/base/standard_output.h"
#include "src/base/standard_streams.h"
#include "src/base/version.h"
#include "src/contracts/contract.h"
#include "src/io/array_names.h"
#include "src/io/case_file.h"
#include "src/io/case_output.h"
#include "src/io/run_files.h"
#include "src/problem/domain.h"
#include "src/problem/words.h"

namespace {

constexpr const char* kUsage =
    "usage: seq [--time] [--contract f32|fixed|fixed16|bf16|fp16] [--causal] [--backward] [--lse FILE] INPUT "
    "OUTPUT, - for standard input "
    "or output; or --q FILE --k FILE --v FILE [--do FILE] OUTPUT";

constexpr const char* kHelp =
    "\n"
    "\n"
    "The sequential reference of hw4, one thread and plain loops: attention, O = softmax(Q K^T / sqrt(d)) V, or its\n"
    "gradients, from file to file. The files are those of hw4, whose --help describes them.\n"
    "\n"
    "  --contract NAME  what the bytes follow, f32 (the default), fixed, fixed16, bf16 or fp16; --arith means the\n"
    "                   same\n"
    "  --causal         under the causal mask, whatever INPUT asks for\n"
    "  --backward       INPUT has Q, K, V, dO for each batch, OUTPUT gets dQ, dK, dV\n"
    "  --q, --k, --v, --do, --dq, --dk, --dv FILE\n"
    "                   arrays of NumPy, a file each, as hw4 takes and writes them\n"
    "  --lse FILE       write the logsumexp of each row of scores too\n"
    "  --time           print the seconds of the arithmetic alone, without reading, checking and writing\n"
    "  -h, --help, -V, --version\n"
    "\n"
    "exit codes: 0 done, 64 wrong usage, 65 bad data, 66 INPUT cannot be opened, 70 internal error, 71 out of memory,\n"
    "73 OUTPUT cannot be created, 74 reading or writing failed, 130, 143, 129 ended by SIGINT, SIGTERM, SIGHUP\n";

struct Request {
    const hw4::Contract* contract = &hw4::kF32;
    bool causal = false;
    const hw4::Operation* operation = nullptr; // null: what the header says
    bool print_time = false;
    std::string lse; // file name; empty: none
    std::string input;
    hw4::ArrayNames arrays; // or the input is these
    std::string output;

    // A file for all operands, or one for each.
    std::vector<std::string> inputs() const { return arrays.given() ? arrays.inputs() : std::vector{input}; }
    // The same for the outputs.
    std::vector<std::string> outputs() const {
        return arrays.gradients().empty() ? std::vector{output} : arrays.gradients();
    }
};

[[noreturn]] void usage_error(const std::string& what) { throw hw4::Error(hw4::ExitCode::usage, what + "; " + kUsage); }

std::string version_line() {
    std::string revisions;
    for (const hw4::Contract* contract : hw4::contracts())
        for (const hw4::Computed& computed : contract->computes)
            revisions += " " + contract->revision_of(*computed.operation);
    return "seq " + std::string(hw4::kVersion) + ", contracts" + revisions + "\n";
}

// The words that are no options.
void take_names(const std::vector<std::string>& names, Request& request) {
    if (request.arrays.given()) {
        const std::string why_not = request.arrays.why_not(names.size(), request.operation);
        if (!why_not.empty()) usage_error(why_not);
        if (request.arrays.inputs().size() == hw4::kBackward.inputs.size()) request.operation = &hw4::kBackward;
    } else if (names.size() != 2) {
        usage_error("need INPUT and OUTPUT, got " + std::to_string(names.size()) +
                    (names.size() == 1 ? " name" : " names"));
    } else {
        request.input = names[0];
    }
    if (!names.empty()) request.output = names.back();
}

// Nothing when --help or --version has been answered. Throws Error (usage).
std::optional<Request> parse(int argc, char** argv) {
    static constexpr option kOptions[] = {{"time", no_argument, nullptr, hw4::kLong + 't'},
                                          {"causal", no_argument, nullptr, hw4::kLong + 'm'},
                                          {"backward", no_argument, nullptr, hw4::kLong + 'b'},
                                          {"lse", required_argument, nullptr, hw4::kLong + 'l'},
                                          {"q", required_argument, nullptr, hw4::ArrayNames::kQ},
                                          {"k", required_argument, nullptr, hw4::ArrayNames::kK},
                                          {"v", required_argument, nullptr, hw4::ArrayNames::kV},
                                          {"do", required_argument, nullptr, hw4::ArrayNames::kDo},
                                          {"dq", required_argument, nullptr, hw4::ArrayNames::kDq},
                                          {"dk", required_argument, nullptr, hw4::ArrayNames::kDk},
                                          {"dv", required_argument, nullptr, hw4::ArrayNames::kDv},
                                          {"contract", required_argument, nullptr, hw4::kLong + 'c'},
                                          {"arith", required_argument, nullptr, hw4::kLong + 'c'},
                                          {"help", no_argument, nullptr, hw4::kLong + 'h'},
                                          {"version", no_argument, nullptr, hw4::kLong + 'V'},
                                          {nullptr, 0, nullptr, 0}};
    Request request;
    opterr = 0; // one line of our own instead of getopt's
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":hV", kOptions, nullptr)) != -1;) {
        switch (code) {
        case 'h':
        case hw4::kLong + 'h': std::fputs((std::string(kUsage) + kHelp).c_str(), stdout); return std::nullopt;
        case 'V':
        case hw4::kLong + 'V': std::fputs(version_line().c_str(), stdout); return std::nullopt;
        case hw4::kLong + 't': request.print_time = true; break;
        case hw4::kLong + 'm': request.causal = true; break;
        case hw4::kLong + 'b': request.operation = &hw4::kBackward; break;
        case hw4::kLong + 'l':
            request.lse = optarg;
            if (request.lse.empty()) usage_error("--lse '': need a name");
            break;
        case hw4::kLong + 'c':
            request.contract = hw4::find_contract(optarg);
            if (request.contract == nullptr) usage_error(hw4::unknown_contract(optarg));
            break;
        default:
            if (!request.arrays.take(code, optarg)) usage_error(hw4::why_refused(code, argv, kOptions));
        }
    }
    take_names({argv + optind, argv + argc}, request);
    if (request.operation != nullptr && request.contract->find(*request.operation) == nullptr)
        usage_error("--" + std::string(request.operation->name) + ": the contract " + request.contract->name +
                    " lacks it");
    if (hw4::is_standard_stream(request.output) && hw4::is_standard_stream(request.lse))
        usage_error("only one of OUTPUT and --lse can be '-', standard output");
    return request;
}

// Throws Error.
void refuse_lse(const Request& request, const hw4::CaseReader& input) {
    const std::string why_not = hw4::why_no_statistics(*request.contract, input.problem());
    if (!why_not.empty()) throw hw4::Error(hw4::ExitCode::usage, input.path() + ": " + why_not);
}

void run(const Request& request) {
    using Clock = std::chrono::steady_clock;
    hw4::InterruptGuard interrupts("seq");
    hw4::CaseReader reader = request.arrays.given() ? hw4::CaseReader(request.arrays.inputs())
                                                    : hw4::CaseReader(request.input, request.operation);
    if (request.causal) reader.set_mask(hw4::Mask::causal);
    const std::string why_not = hw4::why_not(*request.contract, reader.problem());
    if (!why_not.empty()) throw hw4::Error(hw4::ExitCode::bad_data, reader.path() + ": " + why_not);
    if (!request.lse.empty()) refuse_lse(request, reader);
    hw4::RunFiles files;
    for (const std::string& path : request.inputs()) files.add_input(path);
    hw4::CaseOutput writer(files, request.outputs(), reader, interrupts);
    const hw4::Problem& problem = reader.problem();
    std::optional<hw4::OutputFile> lse;
    if (!request.lse.empty()) {
        files.add_output(request.lse);
        lse.emplace(request.lse, interrupts, hw4::form_of_rows(request.lse, problem, reader.header().heads_axis));
    }
    const auto [names, sizes] = hw4::sizes_of(problem);
    FILE* const lines = files.has_standard_output() ? stderr : stdout;
    std::fprintf(lines, "%s: %s\n", names.c_str(), sizes.c_str());
    // Not vectors, which fill their memory at once: so it becomes memory only as data comes.
    const std::unique_ptr<float[]> in(new float[problem.batch_input_floats()]);
    const std::unique_ptr<float[]> out(new float[problem.batch_output_floats()]);
    const size_t lse_rows = lse ? static_cast<size_t>(problem.batch_output_rows()) : 0;
    const std::unique_ptr<hw4::RowStatistics[]> statistics(new hw4::RowStatistics[lse_rows]);
    const std::unique_ptr<float[]> logsumexps(new float[lse_rows]);
    hw4::DomainCheck domain(reader.path(), problem, request.contract->domain);
    Clock::duration arithmetic{};
    for (int64_t b = 0; b < problem.batches; ++b) {
        const int64_t first_row = b * problem.batch_input_rows();
        reader.read_rows(first_row, problem.batch_input_rows(), in.get());
        domain.check(first_row, problem.batch_input_rows(), in.get());
        const Clock::time_point start = Clock::now();
        hw4::compute_by_reference(*request.contract, problem.of_batches(1), in.get(), out.get(),
                                  lse ? statistics.get() : nullptr);
        arithmetic += Clock::now() - start;
        hw4::narrow(problem.element, out.get(), problem.batch_output_floats(), out.get());
        hw4::refuse_infinite(*request.contract, problem, reader.path(), out.get(), problem.batch_output_floats());
        writer.stream().write(out.get(),
                              problem.floats_in(problem.batch_output_rows()) * hw4::bytes_of(problem.element));
        if (!lse) continue;
        hw4::logsumexps(*request.contract, problem, statistics.get(), problem.batch_output_rows(), logsumexps.get());
        lse->write(logsumexps.get(), lse_rows * sizeof(float));
    }
    reader.expect_end();
    writer.finish(false);
    if (lse) lse->commit(false); // first: beside a new output it is new too
    writer.publish(false);
    if (request.print_time)
        std::fprintf(lines, "arithmetic_seconds %.9g\n", std::chrono::duration<double>(arithmetic).count());
}

} // namespace

int main(int argc, char** argv) {
    hw4::occupy_closed_streams();
    try {
        if (const std::optional<Request> request = parse(argc, argv)) run(*request);
        hw4::flush_standard_output();
    } catch (const hw4::Error& error) {
        std::fprintf(stderr, "seq: %s\n", error.what());
        return static_cast<int>(error.code());
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "seq: out of memory\n");
        return static_cast<int>(hw4::ExitCode::out_of_memory);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "seq: %s\n", error.what());
        return static_cast<int>(hw4::ExitCode::internal);
    }
}
