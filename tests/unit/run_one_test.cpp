#include "src/commands/run.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <memory>
#include <sstream>

#include "src/ranks/ranks.h"
#include "tests/support/like_reference.h"
#include "tests/support/shared_cases.h"

namespace hw4 {
namespace {

constexpr const char* kOld = "the output of an earlier run";

class RunOnRanks : public ::testing::Test {
protected:
    RunOnRanks() {
        options_.device = Device::cpu;
        options_.cases = {{folder_ / "a.in", folder_ / "a.out"}};
    }

    void run(int count) {
        testing::internal::CaptureStdout(); // for silence
        testing::internal::CaptureStderr();
        const std::shared_ptr<void> at_the_end(nullptr, [](void*) {
            testing::internal::GetCapturedStdout();
            testing::internal::GetCapturedStderr();
        });
        on_thread_ranks(count, [&](Ranks& ranks) { run_one(options_, ranks, interrupts_); });
    }

    // The failure of a run that changes nothing.
    Failure failure(int count) {
        write_file(folder_ / "a.out", kOld);
        const Failure failed = failure_of([&] { run(count); });
        EXPECT_EQ(read_file(folder_ / "a.out"), kOld);
        EXPECT_EQ(folder_.names(), (std::vector<std::string>{"a.in", "a.out"}));
        return failed;
    }

    const AttentionCase& write_case(const Problem& problem, const Contract& contract = kF32) {
        const AttentionCase& whole = reference_case(problem, CaseKind::uniform, 3, contract);
        write_file(folder_ / "a.in", file_of(problem, whole.qkv, true));
        options_.engine.contract = &contract;
        options_.engine.kernel = kernel_like_reference(contract, *problem.operation);
        return whole;
    }

    static std::string bytes_of(const std::vector<float>& values) {
        return hw4::bytes_of(values.data(), values.size());
    }

    TemporaryFolder folder_;
    InterruptGuard interrupts_;
    Options options_;
};

TEST_F(RunOnRanks, GivesTheBytesOfOne) {
    for (const Contract* contract : contracts())
        for (const Problem& problem : shared_problems()) {
            if (!why_not(*contract, problem).empty()) continue;
            const AttentionCase& whole = write_case(problem, *contract);
            for (const int count : {1, 2, 3, 5}) {
                run(count);
                EXPECT_TRUE(read_file(folder_ / "a.out") == bytes_of(whole.expected))
                    << contract->name << " " << whole.name << " on " << count;
            }
        }
    EXPECT_EQ(folder_.names(), (std::vector<std::string>{"a.in", "a.out"}));
}

TEST_F(RunOnRanks, TheFirstWritesWhatAllHaveGathered) {
    options_.gather = true;
    for (const Problem& problem : shared_problems()) {
        const AttentionCase& whole = write_case(problem);
        run(3);
        EXPECT_TRUE(read_file(folder_ / "a.out") == bytes_of(whole.expected)) << whole.name;
    }
    EXPECT_EQ(folder_.names(), (std::vector<std::string>{"a.in", "a.out"}));
}

TEST_F(RunOnRanks, WritesLogsumexpsAndHeadsOfArrays) {
    Problem problem(3, 300, 4);
    problem.mask = Mask::causal;
    const AttentionCase& whole = write_case(problem);
    std::vector<float> lse(whole.statistics.size());
    logsumexps(kF32, problem, whole.statistics.data(), problem.output_rows(), lse.data());
    options_.cases[0].output = folder_ / "a.npy";
    options_.lse = folder_ / "lse";
    for (const bool gather : {false, true}) {
        options_.gather = gather;
        run(4);
        EXPECT_TRUE(read_file(folder_ / "lse") == bytes_of(lse));
        const std::string array = read_file(folder_ / "a.npy");
        const std::string expected = bytes_of(whole.expected);
        EXPECT_EQ(array.substr(1, 5), "NUMPY");
        EXPECT_TRUE(array.substr(array.size() - expected.size()) == expected);
    }
}

TEST_F(RunOnRanks, AFlawIsNamedAsByOne) {
    Problem problem(3, 300, 2);
    problem.heads = problem.kv_heads = 2;
    const std::vector<float> good(problem.input_bytes() / sizeof(float), 0.5f);
    struct Change {
        int64_t row;
        float value;
    };
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const int64_t batch = problem.batch_input_rows();
    // A NaN on the first, the last and both ranks; a NaN after a batch that is out of range because of numbers that
    // different ranks read; and a NaN before such a batch.
    const std::vector<std::vector<Change>> spoiled = {
        {{0, kNan}},
        {{3 * batch - 1, kNan}},
        {{batch + 700, kNan}, {2 * batch + 1, kNan}, {3 * batch - 1, kNan}},
        {{batch + 10, 0x1p100f}, {batch + 600 + 400, 0x1p100f}, {2 * batch, kNan}},
        {{batch - 1, kNan}, {batch + 10, 0x1p100f}, {batch + 600 + 400, 0x1p100f}},
    };
    for (const std::vector<Change>& changes : spoiled) {
        std::vector<float> data = good;
        for (const auto& [row, value] : changes) data[problem.floats_in(row)] = value;
        write_file(folder_ / "a.in", file_of(problem, data, true));
        const Failure of_one =
            failure_of([&] { DomainCheck(folder_ / "a.in", problem, kF32.domain).check(0, 3 * batch, data.data()); });
        EXPECT_EQ(of_one.code, ExitCode::bad_data);
        for (const int count : {2, 4, 5}) EXPECT_EQ(failure(count), of_one) << count;
    }
}

TEST_F(RunOnRanks, RefusesWhatCannotBeSharedOut) {
    write_case({1, 4, 3});
    options_.cases[0].output = "/dev/null";
    const std::string need = " at once, need a plain file: no pipe, no gzip";
    EXPECT_EQ(failure_of([&] { run(2); }), (Failure{ExitCode::usage, "/dev/null: several ranks write it" + need}));
    options_.cases[0].output = folder_ / "a.out.gz";
    EXPECT_EQ(failure_of([&] { run(2); }),
              (Failure{ExitCode::usage, folder_ / "a.out.gz" + ": several ranks write it" + need}));
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.in"});
    options_.cases[0] = {folder_ / "a.gz", folder_ / "a.out"};
    write_file(folder_ / "a.gz", gzipped(read_file(folder_ / "a.in")));
    EXPECT_EQ(failure_of([&] { run(2); }),
              (Failure{ExitCode::usage, folder_ / "a.gz" + ": several ranks read it" + need}));
}

std::string remark(const Problem& problem) {
    testing::internal::CaptureStderr();
    remark_unusual("a.in", problem);
    return testing::internal::GetCapturedStderr();
}

TEST(CourseRange, HasEveryCaseOfTheCourse) {
    std::ifstream table("testcases/cases.tsv");
    int cases = 0;
    for (std::string line; std::getline(table, line);) {
        std::istringstream fields(line);
        std::string name;
        Problem problem;
        if (line[0] != 't' || !(fields >> name >> problem.batches >> problem.queries >> problem.dim)) continue;
        problem.keys = problem.queries;
        EXPECT_EQ(remark(problem), "") << name;
        ++cases;
    }
    EXPECT_EQ(cases, 30);
}

} // namespace
} // namespace hw4
