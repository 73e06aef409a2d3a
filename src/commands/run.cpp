// Arguments -> open the case -> choose the engine -> run -> rename the output.
#include "src/commands/run.h"

#include <cstdio>
#include <memory>
#include <string>

#include "src/base/error.h"
#include "src/base/host_memory.h"
#include "src/base/interrupt.h"
#include "src/base/parallel.h"
#include "src/commands/engine_choice.h"
#include "src/commands/run_steps.h"
#include "src/gpu/device/connections.h"
#include "src/io/case_output.h"
#include "src/problem/words.h"
#include "src/run/pipeline.h"
#include "src/run/run_report.h"

namespace hw4 {
void remark_unusual(const std::string& input, const Problem& problem) {
    if (!is_plain(problem)) return;
    const int64_t tokens = problem.queries;
    const bool is_power_of_two = (tokens & (tokens - 1)) == 0;
    // The course states B*N*d < 56 M, but its own t12 and t22 have more: t12, the largest, has 79 M.
    constexpr size_t kMostNumbers = size_t{9600} * 128 * 64;
    const bool usual = problem.batches >= 2 && problem.batches <= 14000 && is_power_of_two && tokens >= 128 &&
                       tokens <= 32768 && (problem.dim == 32 || problem.dim == 64) &&
                       problem.output_bytes() / sizeof(float) <= kMostNumbers;
    if (!usual)
        std::fprintf(stderr,
                     "hw4: %s: note: outside the course's range (B 2..14000, N a power of two 128..32768, d 32 or 64, "
                     "B*N*d up to %zu)\n",
                     one_line(input).c_str(), kMostNumbers);
}

std::unique_ptr<OutputFile> open_beside(RunFiles& files, const std::string& path, InterruptGuard& interrupts,
                                        const OutputForm& form) {
    if (path.empty()) return nullptr;
    files.add_output(path);
    return std::make_unique<OutputFile>(path, interrupts, form);
}

void finish_report(OutputFile& file, const std::string& text, bool sync) {
    file.write(text.data(), text.size());
    file.finish(sync);
}

void refuse_what_the_contract_lacks(const CaseReader& input, const Contract& contract) {
    const std::string reason = why_not(contract, input.problem());
    if (!reason.empty()) throw Error(ExitCode::bad_data, input.path() + ": " + reason);
}

CaseReader open_case(const Options& options) {
    CaseReader input = options.arrays.given() ? CaseReader(options.arrays.inputs())
                                              : CaseReader(options.cases.front().input, options.operation);
    if (options.causal) input.set_mask(Mask::causal);
    const Contract& contract = *options.engine.contract;
    refuse_what_the_contract_lacks(input, contract);
    const std::string no_lse = options.lse.empty() ? "" : why_no_statistics(contract, input.problem());
    if (!no_lse.empty()) throw Error(ExitCode::usage, input.path() + ": " + no_lse);
    return input;
}

void run_one(const Options& options) {
    const CaseNames& names = options.cases.front();
    Timeline timeline;
    EngineChoice choice(options);
    if (choice.may_be_gpu()) gpu::ask_for_few_connections();
    InterruptGuard interrupts("hw4");
    CaseReader input = open_case(options);
    RunFiles files;
    for (const std::string& path : options.inputs()) files.add_input(path);
    CaseOutput output(files, options.outputs(), input, interrupts);
    const std::unique_ptr<OutputFile> lse = open_beside(
        files, options.lse, interrupts, form_of_rows(options.lse, input.problem(), input.header().heads_axis));
    const std::unique_ptr<OutputFile> json = open_beside(files, options.json, interrupts);
    const std::unique_ptr<OutputFile> trace = open_beside(files, options.trace, interrupts);
    FILE* const lines = files.has_standard_output() ? stderr : stdout;
    const Problem& problem = input.problem();
    const auto [size_names, sizes] = sizes_of(problem);
    std::fprintf(lines, "%s: %s\n", size_names.c_str(), sizes.c_str());
    remark_unusual(input.path(), problem);

    const auto make_engine = [&](const EngineRequest& request) { return choice(request).make(request); };
    const bool timed = options.time || json || trace;
    OutputChecksum checksum;
    OutputChecksum lse_checksum;
    RunReport report = run_pipeline(input, output.stream(), options.engine, staging_limits(available_processors()),
                                    make_engine, timed ? &timeline : nullptr, json ? &checksum : nullptr,
                                    {lse.get(), json && lse ? &lse_checksum : nullptr});
    report.lse = options.lse;
    output.finish(options.sync);
    if (lse) lse->finish(options.sync);
    const RunFigures figures{summarise(timeline.spans()), timeline.now(), host_peak_bytes()};
    if (json) finish_report(*json, json_text(names.input, report, figures), options.sync);
    if (trace) finish_report(*trace, trace_text(timeline), options.sync);
    // All files are complete; only their names are left. A line that standard output does not take is no reason to
    // throw the result away, so it comes after. Beside a new output its logsumexps are new too.
    if (lse) lse->publish(options.sync);
    output.publish(options.sync);
    if (json) json->publish(options.sync);
    if (trace) trace->publish(options.sync);
    std::fprintf(lines, "Time: %.3f seconds\n", figures.total_seconds);
    if (options.time) std::fputs(time_table(report, figures).c_str(), lines);
}

} // namespace hw4
