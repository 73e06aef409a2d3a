// Many cases in one run: pairs of names -> open each -> the conveyor -> rename each output when it is complete.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/host_memory.h"
#include "src/base/interrupt.h"
#include "src/base/parallel.h"
#include "src/base/standard_streams.h"
#include "src/commands/engine_choice.h"
#include "src/commands/pair_list.h"
#include "src/commands/run.h"
#include "src/commands/run_steps.h"
#include "src/gpu/device/connections.h"
#include "src/run/pipeline.h"
#include "src/run/run_report.h"

namespace hw4 {
namespace {

struct Failure {
    ExitCode code;
    std::string message;
};

Failure describe(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const Error& known) {
        return {known.code(), known.what()};
    } catch (const std::bad_alloc&) {
        return {ExitCode::out_of_memory, "out of host memory"};
    } catch (const std::exception& other) {
        return {ExitCode::internal, other.what()};
    }
}

CaseReport report_on(const CaseNames& names) {
    CaseReport report;
    report.input = names.input;
    report.output = names.output;
    return report;
}

// Among many cases a message has to say whose it is.
std::string with_name(const CaseNames& names, const std::string& message) {
    const auto begins_with = [&](const std::string& name) { return message.compare(0, name.size(), name) == 0; };
    const std::string input = one_line(shown_input(names.input));
    if (begins_with(input + ":") || begins_with(one_line(shown_output(names.output)) + ":")) return message;
    return names.input.empty() ? message : input + ": " + message;
}

// Where lines for the user go: standard output, unless a file of the run is written there.
class Lines {
public:
    explicit Lines(const RunFiles& files) : to_(files.has_standard_output() ? stderr : stdout) {}

    // At once: somebody may wait for it.
    void print(const std::string& text) const {
        std::fputs(text.c_str(), to_);
        std::fflush(to_); // what fails here is noticed at the end
    }

private:
    FILE* const to_;
};

// The files of a run beside those of its cases.
class Reports {
public:
    Reports(const Options& options, RunFiles& files, InterruptGuard& interrupts)
        : json_(open_beside(files, options.json, interrupts)), trace_(open_beside(files, options.trace, interrupts)) {}

    void write(const std::string& json, const std::string& trace, bool sync) {
        if (json_) finish_report(*json_, json, sync);
        if (trace_) finish_report(*trace_, trace, sync);
        if (json_) json_->publish(sync);
        if (trace_) trace_->publish(sync);
    }

private:
    std::unique_ptr<OutputFile> json_;
    std::unique_ptr<OutputFile> trace_;
};

class ManyCases : public RunCases {
public:
    ManyCases(const Options& options, PairList& pairs, RunFiles& files, InterruptGuard& interrupts, const Lines& lines,
              const Timeline& clock)
        : options_(options), pairs_(pairs), files_(files), interrupts_(interrupts), lines_(lines), clock_(clock) {}

    RunCase* next() override {
        const std::optional<ListedPair> pair = pairs_.next();
        if (!pair) return nullptr;
        OpenCase& opened = add(pair->names);
        try {
            if (pair->flaw) std::rethrow_exception(pair->flaw);
            files_.add_case(pair->names.input, pair->names.output);
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
        CaseReport told = report_on(first.names);
        told.seconds = now - std::max(first.since, last_);
        last_ = now;
        if (run.failure)
            fail(told, describe(run.failure));
        else
            succeed(told, first);
        const std::lock_guard<std::mutex> lock(mutex_);
        open_.pop_front();
    }

    // After a run that `error` has stopped: all that were not computed, those in the list too of which nothing is known
    // but their names.
    void report_rest(const std::exception_ptr& error) {
        const Failure stopped = describe(error);
        const auto of_case = [](const OpenCase& left) { return left.run.failure != nullptr; };
        if (std::none_of(open_.begin(), open_.end(), of_case))
            std::fprintf(stderr, "hw4: %s\n", stopped.message.c_str());
        const Failure not_computed = {stopped.code, "not computed: the run has ended"};
        const Failure untold = {stopped.code, "computed and written, but the run has ended"};
        for (const OpenCase& left : open_)
            fail(report_on(left.names), left.run.failure ? describe(left.run.failure)
                                        : left.published ? untold
                                                         : not_computed);
        open_.clear();
        pairs_.give_up();
        while (const std::optional<ListedPair> pair = pairs_.next())
            fail(report_on(pair->names), pair->flaw ? describe(pair->flaw) : not_computed);
    }

    ExitCode first_failure() const { return first_failure_; }
    const std::vector<std::string>& json() const { return json_; }
    CasesReport& report() { return report_; }

private:
    struct OpenCase {
        CaseNames names;
        double since = 0; // when it was there
        std::unique_ptr<CaseReader> input;
        std::unique_ptr<OutputFile> output;
        bool published = false;
        OutputChecksum checksum;
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
        const auto& [input, output] = opened.names;
        opened.input = std::make_unique<CaseReader>(input, options_.operation);
        if (options_.causal) opened.input->set_mask(Mask::causal);
        refuse_what_the_contract_lacks(*opened.input, *options_.engine.contract);
        opened.output =
            std::make_unique<OutputFile>(output, interrupts_, form_of_output(output, opened.input->problem()));
        remark_unusual(opened.input->path(), opened.input->problem());
        opened.run.input = opened.input.get();
        opened.run.output = opened.output.get();
        if (!options_.json.empty()) opened.run.checksum = &opened.checksum;
    }

    void publish(OpenCase& complete) const {
        try {
            complete.output->finish(options_.sync);
            complete.output->publish(options_.sync);
            complete.published = true;
        } catch (...) {
            complete.run.failure = std::current_exception();
        }
    }

    void succeed(CaseReport& report, const OpenCase& settled) {
        report.problem = settled.input->problem();
        report.engine = settled.run.engine;
        if (!options_.json.empty()) report.output_crc32 = settled.checksum.text();
        lines_.print(case_line(report));
        keep(report);
    }
    void fail(CaseReport report, const Failure& failure) {
        report.code = failure.code;
        report.message = with_name({report.input, report.output}, failure.message);
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
    const Lines& lines_;
    const Timeline& clock_;
    std::mutex mutex_;
    std::list<OpenCase> open_; // in their order; the first is settled first
    // Of those that are settled, one at a time.
    double last_ = 0; // when the last one was
    ExitCode first_failure_ = ExitCode::ok;
    std::vector<std::string> json_;
    CasesReport report_;
};

std::unique_ptr<PairList> list_of(const Options& options) {
    if (!options.pairs.empty()) return std::make_unique<PairLines>(options.pairs);
    return std::make_unique<NamedPairs>(options.cases);
}

// All files that are known before the first case is opened. Throws Error (usage). What cannot be looked at is an error
// of its case, which is added again when it is opened.
RunFiles with_cases(RunFiles files, const std::vector<CaseNames>& cases) {
    for (const auto& [input, output] : cases) {
        try {
            files.add_case(input, output);
        } catch (const Error& error) {
            if (error.code() == ExitCode::usage) throw;
        }
    }
    return files;
}

} // namespace

ExitCode run_many(const Options& options) {
    Timeline timeline;
    EngineChoice choice(options);
    if (choice.may_be_gpu()) gpu::ask_for_few_connections();
    InterruptGuard interrupts("hw4");
    const std::unique_ptr<PairList> pairs = list_of(options);
    RunFiles files;
    if (!options.pairs.empty()) files.add_input(options.pairs);
    Reports reports(options, files, interrupts);
    // A later case of a list may ask for standard output when lines of earlier cases are there.
    if (!options.pairs.empty()) files.reserve_standard_output();
    const Lines lines(with_cases(files, options.cases));
    ManyCases cases(options, *pairs, files, interrupts, lines, timeline);
    const StagingLimits limits = staging_limits(available_processors());
    const StagingPlan plan = plan_for_any(limits);
    const bool timed = options.time || !options.json.empty() || !options.trace.empty();
    const auto choose = [&](const EngineRequest& request) { return choice(request); };
    try {
        Conveyor conveyor(cases, {options.engine, limits, plan, true, choose, timed ? &timeline : nullptr});
        conveyor.run();
        conveyor.finish();
    } catch (...) {
        cases.report_rest(std::current_exception());
    }
    cases.report().readers = plan.readers;
    cases.report().writers = plan.writers;
    cases.report().staging_bytes = plan.bytes();
    const RunFigures figures{summarise(timeline.spans()), timeline.now(), host_peak_bytes()};
    reports.write(json_text(cases.json(), cases.report(), figures), trace_text(timeline), options.sync);
    char total[64];
    std::snprintf(total, sizeof total, "Time: %.3f seconds\n", figures.total_seconds);
    lines.print(total + (options.time ? time_table(cases.report(), figures) : ""));
    return cases.first_failure();
}

} // namespace hw4
