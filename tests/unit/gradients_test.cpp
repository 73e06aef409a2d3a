#include "src/bench/gradients.h"

#include <gtest/gtest.h>

#include "src/ranks/ranks.h"

namespace hw4::bench {
namespace {

const Model& model(const std::string& name) {
    for (const Model& known : models())
        if (name == known.name) return known;
    throw Error(ExitCode::internal, "no model " + name);
}

TEST(Buckets, HaveAllTensorsInOrderAndNoneCut) {
    const std::vector<Tensor> tensors = {{"a", 10, 0}, {"b", 3, 1}, {"c", 3, 1}, {"d", 4, 2}};
    const auto counts = [&](size_t bytes) {
        std::vector<size_t> found;
        size_t next = 0;
        for (const Bucket& bucket : buckets_of(tensors, bytes)) {
            EXPECT_EQ(bucket.first, next);
            next += bucket.count;
            found.push_back(bucket.count);
        }
        return found;
    };
    EXPECT_EQ(counts(0), (std::vector<size_t>{10, 3, 3, 4}));
    EXPECT_EQ(counts(24), (std::vector<size_t>{10, 6, 4}));
    EXPECT_EQ(counts(28), (std::vector<size_t>{10, 6, 4}));
    EXPECT_EQ(counts(40), (std::vector<size_t>{10, 10}));
    EXPECT_EQ(counts(1000), (std::vector<size_t>{20}));
    EXPECT_EQ(buckets_of(tensors, 24)[1].after_layers, 1);
    EXPECT_EQ(buckets_of(tensors, 40)[1].after_layers, 2); // when its last tensor is there
}

TEST(GradientSteps, EveryWayHasAllBytesInItsCalls) {
    on_thread_ranks(2, [](Ranks& ranks) {
        const auto collectives = ranks.collectives();
        GradientsCell cell;
        cell.model = &model("tiny");
        cell.batch_size = 1;
        cell.seq_len = 16;
        cell.threads = 1;
        cell.rules = {1, 3, 10};
        GradientSteps steps(cell, group_of(ranks, "cpu", ""), ranks, *collectives);
        const auto measured = [&](SyncWay way, Via via) {
            cell.way = way;
            cell.via = via;
            const GradientsRow row = steps.measure(cell);
            EXPECT_EQ(row.outcome.status, Status::ok) << row.outcome.reason;
            EXPECT_EQ(row.seconds.size(), 3);
            EXPECT_EQ(row.communicating.size(), 3);
            EXPECT_EQ(row.bytes, 134912 * sizeof(float));
            EXPECT_TRUE(row.exposed_s.has_value());
            return row.calls;
        };
        using Kind = SyncWay::Kind;
        EXPECT_EQ(measured({Kind::none, 0}, Via::mpi), 0);
        for (const Via via : {Via::mpi, Via::ordered}) {
            EXPECT_EQ(measured({Kind::naive, 0}, via), 29);
            EXPECT_EQ(measured({Kind::flat, 0}, via), 1);
            EXPECT_EQ(measured({Kind::overlapped, 1 << 20}, via), 1);
            EXPECT_GT(measured({Kind::overlapped, 64 << 10}, via), 2);
        }
    });
}

} // namespace
} // namespace hw4::bench
