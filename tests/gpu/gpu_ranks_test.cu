// Several ranks in one process share the GPU.
#include <gtest/gtest.h>

#include "src/commands/run.h"
#include "src/ranks/ranks.h"
#include "tests/support/need_gpu.h"
#include "tests/support/problems.h"
#include "tests/support/shared_cases.h"
#include "tests/support/subject.h"

namespace hw4 {
namespace {

class GpuRanks : public ::testing::Test {
protected:
    GpuRanks() {
        options_.device = Device::gpu;
        options_.cases = {{folder_ / "a.in", folder_ / "a.out"}};
        options_.json = folder_ / "a.json";
    }

    // The ranks use the GPUs in turn, like the processes of one machine.
    void run(int count) {
        testing::internal::CaptureStdout();
        on_thread_ranks(count, [&](Ranks& ranks) {
            Options of_rank = options_;
            of_rank.engine.card = ranks.node_rank();
            run_one(of_rank, ranks, interrupts_);
        });
        testing::internal::GetCapturedStdout();
    }

    void expect_bytes_of_one(const Problem& problem, const Contract& contract, int count) {
        const AttentionCase& whole = reference_case(problem, CaseKind::uniform, 3, contract);
        write_file(folder_ / "a.in", file_of(problem, whole.qkv, true));
        options_.engine.contract = &contract;
        run(count);
        EXPECT_TRUE(read_file(folder_ / "a.out") == bytes_of(whole.expected.data(), whole.expected.size()))
            << contract.name << " " << whole.name << " on " << count;
    }

    // Returns the ranks' devices, "" for a rank without work.
    std::vector<std::string> devices() {
        const std::vector<std::string> list = json_values(read_file(folder_ / "a.json"), "device");
        return {list.begin() + 1, list.end()}; // without the first entry, which is for the whole run
    }

    TemporaryFolder folder_;
    InterruptGuard interrupts_;
    Options options_;
};

TEST_F(GpuRanks, GiveTheBytesOfOne) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Contract* contract : contracts_by_bytes())
        for (const Problem& problem : shared_problems())
            if (why_not(*contract, problem).empty())
                for (const int count : {2, 3}) expect_bytes_of_one(problem, *contract, count);
}

TEST_F(GpuRanks, AllComputeOnTheCard) {
    HW4_SKIP_WITHOUT_GPU();
    expect_bytes_of_one({3, 300, 64}, kF32, 3);
    EXPECT_EQ(devices(), std::vector<std::string>(3, "gpu"));
}

// One key-value head: some ranks compute rows of dQ, the others blocks of dK and dV.
TEST_F(GpuRanks, ShareTheGradientsOfAHead) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Mask mask : kEveryMask)
        for (const Sizes& sizes :
             {Sizes{1, 1, 1, 700, 700, 64}, Sizes{1, 1, 1, 2300, 2300, 8}, Sizes{1, 3, 1, 300, 500, 37}})
            for (const int count : {2, 3, 5}) {
                expect_bytes_of_one(backward_of(sizes, mask), kF32, count);
                EXPECT_EQ(devices(), std::vector<std::string>(static_cast<size_t>(count), "gpu"));
            }
}

// In half precision a rank computes all gradients of a head or none.
TEST_F(GpuRanks, DoNotCutTheGradientsOfHalfPrecision) {
    HW4_SKIP_WITHOUT_GPU();
    const AttentionCase& whole = reference_case(backward_of({1, 1, 1, 300, 300, 64}), CaseKind::uniform, 3);
    write_file(folder_ / "a.in", file_of(whole.problem, whole.qkv, true));
    options_.engine.contract = &kBf16;
    run(3);
    const std::vector<std::string> all = devices();
    EXPECT_EQ(std::count(all.begin(), all.end(), "gpu"), 1);
}

TEST_F(GpuRanks, TheFirstWritesWhatAllHaveGathered) {
    HW4_SKIP_WITHOUT_GPU();
    options_.gather = true;
    expect_bytes_of_one({3, 700, 64}, kF32, 3);
}

} // namespace
} // namespace hw4
