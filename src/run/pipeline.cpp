#include "src/run/pipeline.h"

#include <algorithm>
#include <atomic>
#include <limits>

namespace hw4 {
namespace {

constexpr int64_t kNoPlace = std::numeric_limits<int64_t>::max();

// The place of the bad value in the file.
int64_t place_of(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Flaw& flaw) {
        return flaw.place();
    } catch (...) {
        return kNoPlace;
    }
}

// The whole case, or its parts. After a bad value the other parts of its batch are checked too: in the file their rows
// are interleaved.
class PartsOfCase : public RunCases {
public:
    explicit PartsOfCase(const CaseRun& run)
        : cases_(run.parts == nullptr ? 1 : run.parts->size(), {&run.input, &run.output, run.lse, run.checksums}) {
        for (size_t i = 0; run.parts != nullptr && i < cases_.size(); ++i) cases_[i].part = &(*run.parts)[i];
    }

    RunCase* next() override {
        if (next_ == cases_.size() || over_ || first_batch(cases_[next_]) > last_batch_) return nullptr;
        return &cases_[next_++];
    }
    void give_up() override { over_ = true; }
    void settled(RunCase& part) override {
        if (!part.failure) return;
        if (place_of(part.failure) == kNoPlace) over_ = true;
        last_batch_ = std::min(last_batch_.load(), first_batch(part));
    }

    const std::vector<RunCase>& cases() const { return cases_; }

private:
    static int64_t first_batch(const RunCase& part) { return part.part == nullptr ? 0 : part.part->first_batch; }

    std::vector<RunCase> cases_;
    size_t next_ = 0;
    std::atomic<bool> over_{false};
    std::atomic<int64_t> last_batch_{kNoPlace}; // the last batch that needs parts
};

} // namespace

StagingLimits staging_limits(int processors) {
    StagingLimits limits;
    limits.readers = std::clamp(processors / 2, 2, limits.readers);
    limits.writers = std::clamp(processors / 4, 2, limits.writers);
    return limits;
}

ChooseEngine always(const MakeEngine& make_engine) {
    return [make_engine](const EngineRequest&) { return EngineMaker{"", make_engine}; };
}

RunReport run_case(const CaseRun& run) {
    RunReport report;
    report.problem = run.input.problem();
    PartsOfCase cases(run);
    if (cases.cases().empty()) return report;
    EngineOptions options = run.options;
    options.statistics = run.lse != nullptr;
    const bool several = cases.cases().size() > 1;
    const StagingPlan plan = several ? plan_for_any(run.limits) : plan_staging(cases.cases().front(), run.limits);
    run_conveyor(cases, {options, run.limits, plan, several, run.choose_engine, run.timeline});
    for (const RunCase& part : cases.cases()) {
        if (part.failure) {
            if (!report.failure || place_of(part.failure) < place_of(report.failure)) report.failure = part.failure;
            continue;
        }
        report.engine = part.engine;
        if (part.seen.rows > 0) report.seen.push_back(part.seen);
    }
    if (report.failure && run.parts == nullptr) std::rethrow_exception(report.failure);
    report.readers = plan.readers;
    report.writers = plan.writers;
    report.staging_bytes = plan.bytes();
    if (run.checksums != nullptr) report.output_crc32 = run.checksums->output.text();
    if (run.checksums != nullptr && run.lse != nullptr) report.lse_crc32 = run.checksums->lse.text();
    return report;
}

} // namespace hw4
