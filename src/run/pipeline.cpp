#include "src/run/pipeline.h"

#include <algorithm>
#include <utility>

#include "src/run/conveyor.h"

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

} // namespace hw4
