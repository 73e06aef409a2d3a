// The properties of attention and of the causal mask in the references and in every CPU kernel.
#include "tests/support/causal.h"
#include "tests/support/file_to_file.h"
#include "tests/support/properties.h"

#include "src/cpu/engine.h"
#include "tests/support/compute_batches.h"
#include "tests/support/cpu_subjects.h"
#include "tests/support/problems.h"

namespace hw4 {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, Properties, testing::ValuesIn(cpu_subjects(contracts_by_bytes())), name_of_instance);
INSTANTIATE_TEST_SUITE_P(Cpu, Causal, testing::ValuesIn(cpu_subjects(contracts_by_bytes())), name_of_instance);
INSTANTIATE_TEST_SUITE_P(Cpu, FixedProperties, testing::ValuesIn(cpu_subjects({&kFixed, &kFixed16})), name_of_instance);
INSTANTIATE_TEST_SUITE_P(Cpu, FixedCausal, testing::ValuesIn(cpu_subjects({&kFixed, &kFixed16})), name_of_instance);

std::unique_ptr<Engine> make_cpu_engine(const EngineRequest& request) { return cpu::make_engine(request); }

// Several blocks of rows and tiles of keys, heads that share keys, enough batches for a thread to take whole ones, d on
// both sides of 32, rows that see no key.
std::vector<Problem> problems_to_cut(const Operation& operation) {
    std::vector<Problem> list;
    for (const Mask mask : kEveryMask)
        for (const Sizes& sizes : {Sizes{3, 4, 2, 50, 140, 33}, Sizes{2, 1, 1, 200, 200, 20}, Sizes{70, 1, 1, 9, 7, 5},
                                   Sizes{2, 2, 1, 90, 70, 40}, Sizes{11, 1, 1, 1, 129, 100}}) {
            list.push_back(problem_of(sizes, mask, operation));
        }
    return list;
}

// O or the gradients, and the row statistics of forward.
struct Outcome {
    std::vector<float> out;
    std::vector<RowStatistics> statistics;
};

// Computes in launches of this many batches.
Outcome launched(const cpu::Kernel& kernel, const AttentionCase& test, int threads, int64_t at_once) {
    Outcome outcome{std::vector<float>(test.expected.size(), NAN), {}};
    if (kernel.does == &kForward) outcome.statistics.assign(test.statistics.size(), {NAN, NAN, NAN});
    const int64_t batches = test.problem.batches;
    for (int64_t batch = 0; batch < batches; batch += at_once) {
        const auto at = static_cast<size_t>(batch);
        const Problem part = test.problem.of_batches(std::min(at_once, batches - batch));
        RowStatistics* const rows = outcome.statistics.data();
        cpu::compute_batches(kernel, part, test.qkv.data() + at * part.batch_input_floats(),
                             outcome.out.data() + at * part.batch_output_floats(), threads,
                             rows == nullptr ? nullptr : rows + batch * part.heads * part.queries);
    }
    return outcome;
}

class CpuRun : public testing::TestWithParam<cpu::Kernel> {
protected:
    void SetUp() override {
        if (!GetParam().needs.processor()) GTEST_SKIP() << "this processor has no " << GetParam().name;
    }
};

// A batch has the bytes that it has alone in one thread, also where a contract's kernels have their own bytes.
TEST_P(CpuRun, GivesABatchTheSameBytesInAnyLaunch) {
    const cpu::Kernel& kernel = GetParam();
    for (const Problem& problem : problems_to_cut(*kernel.does)) {
        const AttentionCase& test = reference_case(problem, CaseKind::spread, 4, *kernel.under);
        const Outcome alone = launched(kernel, test, 1, 1);
        for (const auto& [threads, at_once] : {std::pair{1, problem.batches}, {2, int64_t{2}}, {7, problem.batches}}) {
            SCOPED_TRACE(test.name + ", " + std::to_string(threads) + " threads, " + std::to_string(at_once) +
                         " batches");
            const Outcome outcome = launched(kernel, test, threads, at_once);
            EXPECT_TRUE(same_bytes(alone.out, outcome.out));
            EXPECT_TRUE(same_statistics(alone.statistics, outcome.statistics));
        }
    }
}

// Any number of chunks, pieces and threads.
TEST_P(CpuRun, GivesTheSameBytesHoweverItIsCut) {
    constexpr StagingLimits kLimits[] = {{1, 1, 80, 160}, {3, 2, 4096, 3 * 4096}, {}};
    const cpu::Kernel& kernel = GetParam();
    size_t turn = 0; // of the limits: each number of batches has the next with other threads or another mask
    for (const Mask mask : kEveryMask) {
        const Problem problem = problem_of({11, 1, 1, 40, 40, 20}, mask, *kernel.does);
        const AttentionCase& test = reference_case(problem, CaseKind::spread, 4, *kernel.under);
        const std::vector<float> alone = launched(kernel, test, 1, 1).out;
        const std::string expected = bytes_of(alone.data(), alone.size());
        for (const int threads : {1, 3}) {
            for (const int64_t chunk : {1, 4, 11}) {
                const StagingLimits& limits = kLimits[turn++ % std::size(kLimits)];
                EngineOptions options;
                options.contract = kernel.under;
                options.kernel = kernel.name;
                options.threads = threads;
                options.chunk_batches = chunk;
                EXPECT_TRUE(from_file_to_file(test, options, limits, make_cpu_engine) == expected)
                    << test.name << ", " << threads << " threads, " << chunk << " batches, " << limits.piece_bytes;
            }
            ++turn;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuRun, testing::ValuesIn(cpu::kernels()),
                         [](const auto& instance) { return std::string(instance.param.name); });

} // namespace
} // namespace hw4
