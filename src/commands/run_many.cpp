// Many cases in one run: pairs of names -> open each -> the conveyor -> rename each complete output.
#include <algorithm>
#include <cstdio>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/host_memory.h"
#include "src/base/interrupt.h"
#include "src/base/parallel.h"
#include "src/base/standard_streams.h"
#include "src/commands/engine_choice.h"
#include "src/commands/pair_list.h"
#include "src/commands/run.h"
#include "src/ranks/agree.h"
#include "src/run/case_files.h"
#include "src/run/pipeline.h"
#include "src/run/run_report.h"

namespace hw4 {
namespace {

// The message and the exit code for an error.
RankFailure describe(const std::exception_ptr& error) {
    return *attempt([&] { std::rethrow_exception(error); });
}

// With many cases a message must name its case.
std::string with_name(const CaseNames& names, const std::string& message) {
    const auto begins_with = [&](const std::string& name) { return message.compare(0, name.size(), name) == 0; };
    const std::string input = one_line(shown_input(names.input));
    if (begins_with(input + ":") || begins_with(one_line(shown_output(names.output)) + ":")) return message;
    return names.input.empty() ? message : input + ": " + message;
}

class ManyCases : public RunCases {
public:
    // `lines`: the stream for lines to the user.
    ManyCases(const Options& options, PairList& pairs, RunFiles& files, InterruptGuard& interrupts, FILE* lines,
              const Timeline& clock)
        : options_(options), pairs_(pairs), files_(files), interrupts_(interrupts), lines_(lines), clock_(clock) {}

    // Prints immediately: another program may wait for the line.
    void print(const std::string& text) const {
        std::fputs(text.c_str(), lines_);
        std::fflush(lines_); // an error here is noticed at the end
    }

    RunCase* next() override {
        const std::optional<ListedPair> pair = pairs_.next();
        if (!pair) return nullptr;
        OpenCase& opened = add(pair->names);
        try {
            if (pair->flaw) std::rethrow_exception(pair->flaw);
            open(opened);
        } catch (...) {
            opened.run.failure = std::current_exception();
        }
        return &opened.run;
    }

    void give_up() override { pairs_.give_up(); }

    void settled(RunCase& run) override {
        OpenCase& first = first_open();
        if (!run.failure) publish(first);
        const double now = clock_.now();
        CaseReport told{first.names};
        told.seconds = now - std::max(first.since, last_);
        last_ = now;
        if (run.failure)
            fail(told, describe(run.failure));
        else
            succeed(told, first);
        const std::lock_guard<std::mutex> lock(mutex_);
        open_.pop_front();
    }

    // After an error that stopped the run: reports all cases that were not computed, also the cases of the list that
    // were never opened.
    void report_rest(const std::exception_ptr& error) {
        const RankFailure stopped = describe(error);
        const auto of_case = [](const OpenCase& left) { return left.run.failure != nullptr; };
        if (std::none_of(open_.begin(), open_.end(), of_case))
            std::fprintf(stderr, "hw4: %s\n", stopped.message.c_str());
        const RankFailure not_computed = {stopped.code, RankFailure::kNoPlace, "not computed: the run has ended"};
        const RankFailure untold = {stopped.code, RankFailure::kNoPlace, "computed and written, but the run has ended"};
        for (const OpenCase& left : open_)
            fail({left.names}, left.run.failure ? describe(left.run.failure) : left.published ? untold : not_computed);
        open_.clear();
        pairs_.give_up();
        while (const std::optional<ListedPair> pair = pairs_.next())
            fail({pair->names}, pair->flaw ? describe(pair->flaw) : not_computed);
    }

    ExitCode first_failure() const { return first_failure_; }
    const std::vector<std::string>& json() const { return json_; }
    CasesReport& report() { return report_; }

private:
    struct OpenCase {
        CaseNames names;
        double since = 0; // when it was opened
        std::optional<CaseFiles> files;
        bool published = false;
        OutputChecksums checksums;
        RunCase run;
    };

    OpenCase& add(const CaseNames& names) {
        const std::lock_guard<std::mutex> lock(mutex_);
        OpenCase& added = open_.emplace_back();
        added.names = names;
        added.since = clock_.now();
        return added;
    }
    OpenCase& first_open() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return open_.front();
    }

    void open(OpenCase& opened) {
        CaseFiles::add_names(files_, opened.names, options_);
        CaseFiles& files = opened.files.emplace(opened.names, options_, *options_.engine.contract);
        files.open_outputs(interrupts_);
        remark_unusual(files.input().path(), files.problem());
        opened.run.input = &files.input();
        opened.run.output = &files.output();
        if (!options_.json.empty()) opened.run.checksums = &opened.checksums;
    }

    void publish(OpenCase& complete) const {
        try {
            complete.files->finish(options_.sync);
            complete.files->publish(options_.sync);
            complete.published = true;
        } catch (...) {
            complete.run.failure = std::current_exception();
        }
    }

    void succeed(CaseReport& report, const OpenCase& settled) {
        report.problem = settled.files->problem();
        report.engine = settled.run.engine;
        if (!options_.json.empty()) report.output_crc32 = settled.checksums.output.text();
        print(case_line(report));
        keep(report);
    }
    void fail(CaseReport report, const RankFailure& failure) {
        report.code = failure.code;
        report.message = with_name(report.names, failure.message);
        if (first_failure_ == ExitCode::ok) first_failure_ = failure.code;
        std::fprintf(stderr, "hw4: %s\n", report.message.c_str());
        keep(report);
    }
    void keep(const CaseReport& report) {
        report_.add(report);
        if (!options_.json.empty()) json_.push_back(json_entry(report));
    }

    const Options& options_;
    PairList& pairs_;
    RunFiles& files_;
    InterruptGuard& interrupts_;
    FILE* const lines_;
    const Timeline& clock_;
    std::mutex mutex_;
    std::list<OpenCase> open_; // in order; the first is settled first
    // Results of the settled cases; one is settled at a time.
    double last_ = 0; // when the last one was settled
    ExitCode first_failure_ = ExitCode::ok;
    std::vector<std::string> json_;
    CasesReport report_;
};

// All files that are known before the first case opens. Throws Error (usage). An unreadable file is an error of its
// case, which is added again when it opens.
RunFiles with_cases(RunFiles files, const std::vector<CaseNames>& cases) {
    for (const CaseNames& names : cases) {
        try {
            CaseFiles::add_names(files, names, {});
        } catch (const Error& error) {
            if (error.code() == ExitCode::usage) throw;
        }
    }
    return files;
}

} // namespace

ExitCode run_many(const Options& options, InterruptGuard& interrupts) {
    Timeline timeline;
    EngineChoice choice(options);
    PairList pairs(options.cases, options.pairs);
    RunFiles files;
    if (!options.pairs.empty()) files.add_input(options.pairs);
    RunReports reports(options, files, interrupts);
    // A later case of a list may ask for standard output after lines of earlier cases were printed there.
    if (!options.pairs.empty()) files.reserve_standard_output();
    ManyCases cases(options, pairs, files, interrupts, with_cases(files, options.cases).lines(), timeline);
    const StagingLimits limits = staging_limits(available_processors());
    const StagingPlan plan = plan_for_any(limits);
    const auto choose = [&](const EngineRequest& request) { return choice(request); };
    try {
        run_conveyor(cases, {options.engine, limits, plan, true, choose, options.timed() ? &timeline : nullptr});
    } catch (...) {
        cases.report_rest(std::current_exception());
    }
    cases.report().readers = plan.readers;
    cases.report().writers = plan.writers;
    cases.report().staging_bytes = plan.bytes();
    const RunFigures figures{summarise(timeline.spans()), timeline.now(), host_peak_bytes()};
    reports.finish(json_text(cases.json(), cases.report(), figures), trace_text({trace_events(timeline, {})}));
    reports.publish();
    char total[64];
    std::snprintf(total, sizeof total, "Time: %.3f seconds\n", figures.total_seconds);
    cases.print(total + (options.time ? time_table(cases.report(), figures) : ""));
    return cases.first_failure();
}

} // namespace hw4
