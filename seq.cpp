// seq: the sequential reference. O = softmax(Q K^T / sqrt(d)) V, or its gradients, in one thread with plain loops, in
// the order that the contract's forward.h and backward.h in src/contracts define. Every other engine of this project
// must print the bytes that this program prints; under bf16 and fp16 the other engines must come close to them.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/command_line.h"
#include "src/base/help_text.h"
#include "src/base/interrupt.h"
#include "src/base/standard_streams.h"
#include "src/base/version.h"
#include "src/contracts/contract.h"
#include "src/io/file_rows.h"
#include "src/problem/domain.h"
#include "src/run/case_files.h"
#include "src/step/training.h"

namespace {

std::string help_text() {
    return R"(usage: seq [options] INPUT OUTPUT
       seq [options] --q FILE --k FILE --v FILE [--do FILE] OUTPUT
       seq train [options] TOKENS CHECKPOINT     seq train --help

)" + hw4::laid_out(
               R"(The sequential reference of hw4, one thread and plain loops: attention, O = softmax(Q K^T / sqrt(d))
    V, or its gradients, from file to file. The files and options are as in hw4; see hw4 help files, hw4 help
    options.

options:
)" + hw4::choice("--contract", hw4::contracts()) +
               R"(  which arithmetic, default f32
  --causal  use the causal mask, whatever INPUT says
  --window W, --scale X  the window and the scale, whatever INPUT says
  --backward  INPUT has Q, K, V, dO for each batch, OUTPUT gets dQ, dK, dV
  --q, --k, --v, --do, --dq, --dk, --dv FILE  arrays of NumPy, a file each
  --lse FILE  also write the logsumexp of each row of scores
  --time  print the seconds of the arithmetic alone, without reading, checking and writing
  -h, --help, -V, --version

exit codes: 0 done, 64 wrong usage, 65 bad data, 66 INPUT cannot be opened, 70 internal error, 71 out of memory, 73
OUTPUT cannot be created, 74 reading or writing failed, 130, 143, 129 ended by SIGINT, SIGTERM, SIGHUP
)");
}

struct Request : hw4::CaseOptions {
    const hw4::Contract* contract = &hw4::kF32;
    bool print_time = false;
    hw4::CaseNames names;
};

std::string version_line() {
    return "seq " + std::string(hw4::kVersion) + ", contracts " + hw4::contract_revisions() + "\n";
}

// Returns nothing after --help or --version. Throws Error (usage).
std::optional<Request> parse(int argc, char** argv) {
    Request request;
    std::vector<hw4::CommandOption> list = request.options(request.contract);
    list.push_back(hw4::flag("time", request.print_time));
    const hw4::Action asked = hw4::take_options(argc, argv, list);
    if (asked == hw4::Action::help) std::fputs(help_text().c_str(), stdout);
    if (asked == hw4::Action::version) std::fputs(version_line().c_str(), stdout);
    if (asked != hw4::Action::run) return std::nullopt;
    const std::vector<hw4::CaseNames> cases = request.cases_of({argv + optind, argv + argc});
    if (cases.size() != 1)
        hw4::usage_error("need one INPUT and OUTPUT, got " + std::to_string(2 * cases.size()) + " names");
    request.names = cases.front();
    request.refuse_what_lacks(*request.contract);
    hw4::refuse_sharing_standard_output({request.names.output, request.lse});
    return request;
}

void run(const Request& request) {
    using Clock = std::chrono::steady_clock;
    hw4::InterruptGuard interrupts("seq");
    hw4::RunFiles names;
    hw4::CaseFiles::add_names(names, request.names, request);
    hw4::CaseFiles files(request.names, request, *request.contract);
    files.open_outputs(interrupts);
    std::fprintf(names.lines(), "%s\n", files.sizes_line().c_str());
    hw4::CaseReader& input = files.input();
    const hw4::Problem& problem = files.problem();
    // Not a vector, which fills its memory at once: this array only becomes memory as data arrives.
    const std::unique_ptr<float[]> in(new float[problem.batch_input_floats()]);
    const std::unique_ptr<float[]> out(new float[problem.batch_output_floats()]);
    const size_t lse_rows = files.lse() != nullptr ? static_cast<size_t>(problem.batch_output_rows()) : 0;
    const std::unique_ptr<hw4::RowStatistics[]> statistics(new hw4::RowStatistics[lse_rows]);
    const std::unique_ptr<float[]> logsumexps(new float[lse_rows]);
    hw4::DomainCheck domain(input.path(), problem, request.contract->domain);
    Clock::duration arithmetic{};
    for (int64_t b = 0; b < problem.batches; ++b) {
        const int64_t first_row = b * problem.batch_input_rows();
        input.read_rows(first_row, problem.batch_input_rows(), in.get());
        domain.check(first_row, problem.batch_input_rows(), in.get());
        const Clock::time_point start = Clock::now();
        hw4::compute_by_reference(*request.contract, problem.of_batches(1), in.get(), out.get(),
                                  lse_rows > 0 ? statistics.get() : nullptr,
                                  input.lengths() == nullptr ? nullptr : input.lengths() + b);
        arithmetic += Clock::now() - start;
        hw4::narrow(problem.element, out.get(), problem.batch_output_floats(), out.get());
        hw4::refuse_infinite(*request.contract, problem, input.path(), out.get(), problem.batch_output_floats());
        hw4::each_in_file(problem, problem.operation->outputs, 0, problem.batch_output_rows(), out.get(),
                          [&](uint64_t, const void* numbers, size_t bytes) { files.output().write(numbers, bytes); });
        if (lse_rows == 0) continue;
        hw4::logsumexps(*request.contract, problem, statistics.get(), problem.batch_output_rows(), logsumexps.get());
        files.lse()->write(logsumexps.get(), lse_rows * sizeof(float));
    }
    input.expect_end();
    files.finish(false);
    files.publish(false);
    if (request.print_time)
        std::fprintf(names.lines(), "arithmetic_seconds %.9g\n", std::chrono::duration<double>(arithmetic).count());
}

} // namespace

int main(int argc, char** argv) {
    return hw4::run_program("seq", [&] {
        if (argc > 1 && argv[1] == std::string("train"))
            hw4::within_command("seq train",
                                [&] { hw4::step::train_by_reference(argc - 1, argv + 1, version_line()); });
        else if (const std::optional<Request> request = parse(argc, argv))
            run(*request);
        return 0;
    });
}
