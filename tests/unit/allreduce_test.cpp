#include "src/bench/allreduce.h"

#include <gtest/gtest.h>

#include "src/ranks/ranks.h"

namespace hw4::bench {
namespace {

AllreduceCell cell_of(Via via, int64_t bytes) { return {via, bytes, 8, {0, 3, 10}}; }

// The first rank's row, which all ranks share.
AllreduceRow measured(const AllreduceCell& cell, int count) {
    AllreduceRow first;
    on_thread_ranks(count, [&](Ranks& ranks) {
        const auto collectives = ranks.collectives();
        const RankGroup group = group_of(ranks, "cpu", "");
        const AllreduceRow row = measure_allreduce(cell, group, ranks, *collectives);
        EXPECT_EQ(row.seconds.size(), row.outcome.status == Status::ok ? 3 : 0);
        if (ranks.is_first()) first = row;
    });
    return first;
}

TEST(Allreduce, AddsUpRightWhateverTheRanks) {
    for (const Via via : {Via::mpi, Via::ordered})
        for (const int ranks : {1, 2, 3, 5}) {
            const AllreduceRow row = measured(cell_of(via, 300004), ranks); // longer than a period of the numbers
            EXPECT_EQ(row.outcome.status, Status::ok) << row.outcome.reason;
            EXPECT_EQ(row.wrong, 0);
            EXPECT_TRUE(row.same_on_all);
            EXPECT_EQ(row.path, "host memory");
        }
}

TEST(Allreduce, InOrderHasTheSameBytesForEveryNumberOfRanks) {
    const std::string alone = measured(cell_of(Via::ordered, 40004), 1).crc32;
    for (const int ranks : {2, 3, 4, 8}) EXPECT_EQ(measured(cell_of(Via::ordered, 40004), ranks).crc32, alone);
    EXPECT_NE(measured(cell_of(Via::mpi, 40004), 3).crc32, alone); // the order of addition matters
}

TEST(Allreduce, WhatCannotRunSaysWhy) {
    const AllreduceRow row = measured(cell_of(Via::nccl, 4), 2);
    EXPECT_EQ(row.outcome.status, Status::unsupported);
    EXPECT_NE(allreduce_line(row).find("unsupported: NCCL adds up what is on GPUs"), std::string::npos);
}

// A library that loses a number.
class Forgetful : public ExchangedNumbers {
public:
    using ExchangedNumbers::ExchangedNumbers;
    void sum(float* values, size_t count) override {
        const float before = values[count - 1];
        ExchangedNumbers::sum(values, count);
        values[count - 1] = before;
    }
};

TEST(Allreduce, WrongNumbersAreCountedAndFail) {
    on_thread_ranks(2, [](Ranks& ranks) {
        Forgetful collectives(ranks);
        const AllreduceRow row =
            measure_allreduce(cell_of(Via::mpi, 300004), group_of(ranks, "cpu", ""), ranks, collectives);
        EXPECT_EQ(row.outcome.status, Status::failed);
        EXPECT_EQ(row.wrong, 2); // one on each rank
        EXPECT_FALSE(row.same_on_all);
    });
}

TEST(Allreduce, BandwidthsAreThoseOfNcclTests) {
    AllreduceRow row{cell_of(Via::mpi, 1000000), {4, 1, 1, "gpu", "Open MPI"}, {}, "host memory", {1e-3}, 0, "", true};
    EXPECT_DOUBLE_EQ(row.algorithm_bandwidth(), 1);
    EXPECT_DOUBLE_EQ(row.bus_bandwidth(), 1.5);
    EXPECT_NE(allreduce_line(row).find("ok: host memory, ranks share a GPU"), std::string::npos);
    EXPECT_TRUE(row.has_bandwidth());
    row.group.ranks = 1;
    EXPECT_FALSE(row.has_bandwidth());
}

TEST(RankGroup, ComesToOneOutcome) {
    on_thread_ranks(3, [](Ranks& ranks) {
        const Outcome outcome = agreed_outcome(ranks, [&] {
            if (ranks.rank() > 0) throw Unsupported("rank " + std::to_string(ranks.rank()));
        });
        EXPECT_EQ(outcome.status, Status::unsupported);
        EXPECT_EQ(outcome.reason, "rank 1");
        EXPECT_EQ(largest_of_ranks(ranks, {1, -1.0 * ranks.rank()}), (std::vector<double>{1, 0}));
    });
}

} // namespace
} // namespace hw4::bench
