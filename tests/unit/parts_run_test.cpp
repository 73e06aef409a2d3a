#include "src/run/pipeline.h"

#include <gtest/gtest.h>

#include <limits>

#include "src/cpu/engine.h"
#include "src/run/shares.h"
#include "tests/support/like_reference.h"
#include "tests/support/shared_cases.h"

namespace hw4 {
namespace {

using test::failure_of;
using test::read_file;
using test::write_file;

constexpr StagingLimits kSmall = {3, 2, 4096, 3 * 4096}; // a ring of three pages

class PartsRun : public ::testing::Test {
protected:
    RunReport run(const QueryRows& rows, OutputFile& output, const Contract& contract = kF32,
                  OutputFile* lse = nullptr) {
        return run(parts_of(CaseReader(folder_ / "a.in").problem(), rows), output, contract, lse);
    }
    RunReport run(const std::vector<CasePart>& parts, OutputFile& output, const Contract& contract = kF32,
                  OutputFile* lse = nullptr) {
        CaseReader input(folder_ / "a.in");
        EngineOptions options;
        options.contract = &contract;
        options.threads = 2;
        options.kernel = kernel_like_reference(contract, *input.problem().operation);
        const auto make = [](const EngineRequest& request) { return cpu::make_engine(request); };
        return run_case({input, output, options, kSmall, always(make), nullptr, lse, nullptr, &parts});
    }

    test::TemporaryFolder folder_;
    InterruptGuard interrupts_;
};

// The last share first: nobody counts on what others have done.
TEST_F(PartsRun, GiveTheBytesOfTheWhole) {
    for (const Contract* contract : contracts())
        for (const Problem& problem : test::shared_problems()) {
            if (!why_not(*contract, problem).empty()) continue;
            const AttentionCase& whole = reference_case(problem, CaseKind::uniform, 3, *contract);
            write_file(folder_ / "a.in", test::file_of(problem, whole.qkv));
            for (const int shares : {1, 3, 5}) {
                OutputFile output(folder_ / "a.out", interrupts_);
                const std::vector<std::vector<CasePart>> divided = divide_into_parts(problem, shares, Gradients::cut);
                for (size_t share = divided.size(); share-- > 0;)
                    EXPECT_EQ(run(divided[share], output, *contract).failure, nullptr);
                output.commit(false);
                const std::string expected = test::bytes_of(whole.expected.data(), whole.expected.size());
                EXPECT_TRUE(read_file(folder_ / "a.out") == expected)
                    << contract->name << " " << whole.name << " in " << shares;
            }
        }
}

TEST_F(PartsRun, PutLogsumexpsInTheirPlaces) {
    for (const Problem& problem : test::shared_problems()) {
        if (problem.operation != &kForward) continue;
        const AttentionCase& whole = reference_case(problem, CaseKind::uniform, 3);
        write_file(folder_ / "a.in", test::file_of(problem, whole.qkv));
        std::vector<float> expected(whole.statistics.size());
        logsumexps(kF32, problem, whole.statistics.data(), problem.output_rows(), expected.data());
        OutputFile output(folder_ / "a.out", interrupts_);
        OutputFile lse(folder_ / "a.lse", interrupts_);
        for (const QueryRows& rows : divide(problem, 4)) run(rows, output, kF32, &lse);
        lse.commit(false);
        EXPECT_TRUE(read_file(folder_ / "a.lse") == test::bytes_of(expected.data(), expected.size())) << whole.name;
    }
}

TEST_F(PartsRun, NothingIsComputedForAShareWithoutRows) {
    write_file(folder_ / "a.in", test::counting_case(1, 4, 3));
    OutputFile output(folder_ / "a.out", interrupts_);
    const RunReport report = run({4, 4}, output);
    EXPECT_EQ(report.failure, nullptr);
    EXPECT_EQ(report.engine.device, "");
}

// Flaws are named as in the whole case, by whoever reads them, and with the place that they have there.
TEST_F(PartsRun, NameFlawsByTheirPlaceInTheWhole) {
    Problem problem(2, 300, 2);
    problem.heads = 2;
    std::vector<float> data(problem.input_bytes() / sizeof(float), 0.5f);
    const int64_t row = problem.batch_input_rows() + 300 + 140; // batch 1, Q, head 1
    data[problem.floats_in(row) + 1] = std::numeric_limits<float>::quiet_NaN();
    write_file(folder_ / "a.in", test::file_of(problem, data));
    OutputFile output(folder_ / "a.out", interrupts_);
    EXPECT_EQ(run({0, 900 + 128}, output).failure, nullptr);
    const RunReport report = run({900 + 128, 1200}, output);
    ASSERT_NE(report.failure, nullptr);
    try {
        std::rethrow_exception(report.failure);
    } catch (const Flaw& flaw) {
        EXPECT_EQ(std::string(flaw.what()),
                  folder_ / "a.in" + ": batch 1, Q, head 1, row 140, column 1: nan, need a finite number");
        EXPECT_EQ(flaw.place(), Flaw::in_row(row));
    }
}

// A large query in one share and a large key, which another reads, are a flaw only together.
TEST_F(PartsRun, LeaveABatchInPartToWhoeverJoinsIt) {
    Problem problem(1, 300, 1);
    problem.heads = problem.kv_heads = 2;
    std::vector<float> data(problem.input_bytes() / sizeof(float), 1.0f);
    data[10] = 0x1p100f;        // Q of head 0
    data[600 + 300] = 0x1p100f; // K of head 1
    write_file(folder_ / "a.in", test::file_of(problem, data));
    OutputFile output(folder_ / "a.out", interrupts_);
    const RunReport first = run({0, 300}, output);
    const RunReport second = run({300, 600}, output);
    ASSERT_EQ(first.failure, nullptr);
    ASSERT_EQ(second.failure, nullptr);
    ASSERT_EQ(first.seen.size(), 1U);
    ASSERT_EQ(second.seen.size(), 1U);
    BatchExtremes seen = first.seen[0].extremes;
    seen.merge(second.seen[0].extremes);
    const DomainCheck check("a.in", problem, kF32.domain);
    check.judge(0, first.seen[0].extremes);
    check.judge(0, second.seen[0].extremes);
    EXPECT_EQ(failure_of([&] { check.judge(0, seen); }).message.substr(0, 36), "a.in: batch 0, Q, head 0, row 10: sc");
}

} // namespace
} // namespace hw4
