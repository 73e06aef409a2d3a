// The properties of attention, of the references and of every CPU kernel.
#include "tests/support/file_to_file.h"
#include "tests/support/properties.h"

#include "src/cpu/engine.h"
#include "tests/support/cpu_subjects.h"

namespace hw4 {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, Properties, testing::ValuesIn(cpu_subjects(kF32)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(CpuFixed, Properties, testing::ValuesIn(cpu_subjects(kFixed)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(CpuFixed, FixedProperties, testing::ValuesIn(cpu_subjects(kFixed)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(CpuFixed16, Properties, testing::ValuesIn(cpu_subjects(kFixed16)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(CpuFixed16, FixedProperties, testing::ValuesIn(cpu_subjects(kFixed16)), name_of_instance);

std::unique_ptr<Engine> make_cpu_engine(const EngineRequest& request) { return cpu::make_engine(request); }

class CpuRun : public testing::TestWithParam<cpu::Kernel> {};

// However a run is cut into chunks, pieces and threads.
TEST_P(CpuRun, GivesTheSameBytesHoweverItIsCut) {
    constexpr StagingLimits kLimits[] = {{1, 1, 80, 160}, {3, 2, 4096, 3 * 4096}, {}};
    const cpu::Kernel& kernel = GetParam();
    if (!kernel.needs.processor()) GTEST_SKIP() << "this processor has no " << kernel.name;
    const AttentionCase test({11, 70, 20}, CaseKind::spread, 4, *kernel.under);
    const std::string expected = test::bytes_of(test.expected.data(), test.expected.size());
    for (const int threads : {1, 3})
        for (const int64_t chunk : {1, 4, 11})
            for (const StagingLimits& limits : kLimits) {
                EngineOptions options;
                options.contract = kernel.under;
                options.kernel = kernel.name;
                options.threads = threads;
                options.chunk_batches = chunk;
                EXPECT_TRUE(from_file_to_file(test, options, limits, make_cpu_engine) == expected)
                    << threads << " threads, " << chunk << " batches, " << limits.piece_bytes;
            }
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuRun, testing::ValuesIn(cpu_kernels_of(kForward)),
                         [](const auto& instance) { return std::string(instance.param.name); });

} // namespace
} // namespace hw4
