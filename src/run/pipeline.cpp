#include "src/run/pipeline.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

namespace hw4 {
namespace {

class OneCase : public RunCases {
public:
    explicit OneCase(RunCase& only) : next_(&only) {}

    RunCase* next() override { return std::exchange(next_, nullptr); }
    void give_up() override {}
    void settled(RunCase&) override {}

private:
    RunCase* next_;
};

constexpr int64_t kNoPlace = std::numeric_limits<int64_t>::max();

// Of a flaw, in the file.
int64_t place_of(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Flaw& flaw) {
        return flaw.place();
    } catch (...) {
        return kNoPlace;
    }
}

// After a flaw the other parts of its batch are looked at too: in the file their rows are among one another.
class PartsOfCase : public RunCases {
public:
    PartsOfCase(const RunCase& whole, const std::vector<CasePart>& parts) : cases_(parts.size(), whole) {
        for (size_t i = 0; i < parts.size(); ++i) cases_[i].part = &parts[i];
    }

    RunCase* next() override {
        if (next_ == cases_.size() || over_ || cases_[next_].part->first_batch > last_batch_) return nullptr;
        return &cases_[next_++];
    }
    void give_up() override { over_ = true; }
    void settled(RunCase& part) override {
        if (!part.failure) return;
        if (place_of(part.failure) == kNoPlace) over_ = true;
        last_batch_ = std::min(last_batch_.load(), part.part->first_batch);
    }

    const std::vector<RunCase>& cases() const { return cases_; }

private:
    std::vector<RunCase> cases_;
    size_t next_ = 0;
    std::atomic<bool> over_{false};
    std::atomic<int64_t> last_batch_{kNoPlace}; // that parts are needed of
};

} // namespace

StagingLimits staging_limits(int processors) {
    StagingLimits limits;
    limits.readers = std::clamp(processors / 2, 2, limits.readers);
    limits.writers = std::clamp(processors / 4, 2, limits.writers);
    return limits;
}

RunReport run_pipeline(CaseReader& input, OutputFile& output, const EngineOptions& options, const StagingLimits& limits,
                       const MakeEngine& make_engine, Timeline* timeline, OutputChecksum* checksum,
                       const LseOutput& lse) {
    RunCase only{&input, &output, checksum, nullptr, {}, lse.file, lse.checksum};
    const StagingPlan plan = plan_staging(only, limits);
    OneCase cases(only);
    EngineOptions asked = options;
    asked.statistics = lse.file != nullptr;
    const auto only_engine = [&](const EngineRequest&) { return EngineMaker{"", make_engine}; };
    Conveyor conveyor(cases, {asked, limits, plan, false, only_engine, timeline});
    conveyor.run();
    if (only.failure) std::rethrow_exception(only.failure);
    conveyor.finish();
    RunReport report{input.problem(), only.engine, plan.readers, plan.writers, plan.bytes(), "", "", ""};
    if (checksum != nullptr) report.output_crc32 = checksum->text();
    if (lse.checksum != nullptr) report.lse_crc32 = lse.checksum->text();
    return report;
}

PartsReport run_parts(CaseReader& input, const std::vector<CasePart>& parts, OutputFile& output,
                      const EngineOptions& options, const StagingLimits& limits, const ChooseEngine& choose_engine,
                      Timeline* timeline, OutputChecksum* checksum, const LseOutput& lse) {
    PartsReport report;
    if (parts.empty()) return report;
    const RunCase whole{&input, &output, checksum, nullptr, {}, lse.file, lse.checksum};
    PartsOfCase cases(whole, parts);
    EngineOptions asked = options;
    asked.statistics = lse.file != nullptr;
    const bool several = parts.size() > 1;
    const StagingPlan plan = several ? plan_for_any(limits) : plan_staging(cases.cases().front(), limits);
    Conveyor conveyor(cases, {asked, limits, plan, several, choose_engine, timeline});
    conveyor.run();
    conveyor.finish();
    report.readers = plan.readers;
    report.writers = plan.writers;
    report.staging_bytes = plan.bytes();
    for (const RunCase& part : cases.cases()) {
        if (part.failure) {
            if (!report.failure || place_of(part.failure) < place_of(report.failure)) report.failure = part.failure;
            continue;
        }
        report.engine = part.engine;
        if (part.seen.rows > 0) report.seen.push_back(part.seen);
    }
    return report;
}

} // namespace hw4
