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
                       const MakeEngine& make_engine, Timeline* timeline, OutputChecksum* checksum) {
    const StagingPlan plan = plan_staging(input.problem(), input.random_access(), output.random_access(), limits);
    RunCase only{&input, &output, checksum, nullptr, {}};
    OneCase cases(only);
    const auto only_engine = [&](const EngineRequest&) { return EngineMaker{"", make_engine}; };
    Conveyor conveyor(cases, {options, limits, plan, false, only_engine, timeline});
    conveyor.run();
    if (only.failure) std::rethrow_exception(only.failure);
    conveyor.finish();
    return {input.problem(), only.engine,  plan.readers,
            plan.writers,    plan.bytes(), checksum == nullptr ? "" : checksum->text()};
}

} // namespace hw4
