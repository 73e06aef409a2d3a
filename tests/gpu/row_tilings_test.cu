// The kernel of register_rows with blocks of other sizes: every one gives the reference's bytes, which are the rung's.
#include "profile/row_tilings.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "tests/support/attend.h"
#include "tests/support/attention_case.h"
#include "tests/support/need_gpu.h"
#include "tests/support/stray_cases.h"

namespace hw4::gpu {
namespace {

TEST(RowTilings, AreEveryBrWithEveryBcForEveryHeadSize) {
    for (int64_t dim = 1; dim <= kMostTilingColumns; ++dim) {
        std::set<int> rows;
        std::set<int> keys;
        std::set<std::pair<int, int>> tilings;
        for (const SizedTiling& tiling : row_tilings(dim)) {
            rows.insert(tiling.rows);
            keys.insert(tiling.keys);
            tilings.insert({tiling.rows, tiling.keys});
            EXPECT_EQ(tiling.threads, 32 * tiling.rows);
        }
        EXPECT_EQ(rows, (std::set<int>{4, 8, 16, 32}));
        EXPECT_EQ(keys, (std::set<int>{32, 64, 96, 128, 256}));
        EXPECT_EQ(tilings.size(), rows.size() * keys.size());
        EXPECT_EQ(row_tilings(dim).size(), tilings.size());
    }
}

// Q and the weights of the rows, and the keys' columns, 33 floats for every 32.
TEST(RowTilings, HaveCodeWhereTheSharedMemoryIsEnough) {
    for (const int dim : {32, 64})
        for (const SizedTiling& tiling : row_tilings(dim)) {
            const size_t floats = static_cast<size_t>(tiling.rows * (dim + 32) + tiling.keys * (dim + dim / 32));
            EXPECT_GE(tiling.shared_bytes, floats * sizeof(float));
            EXPECT_LE(tiling.shared_bytes, floats * sizeof(float) + 16);
            const bool fits = tiling.shared_bytes <= 49152;
            EXPECT_EQ(tiling.launch != nullptr, fits);
            EXPECT_EQ(tiling.function != nullptr, fits);
            EXPECT_EQ(why_not(tiling).empty(), fits);
        }
    EXPECT_EQ(why_not(row_tilings(64).back()),
              "needs 79888 bytes of shared memory a block, of which every card grants 49152");
}

// Of those that there is code for.
void expect_reference_bytes(const SizedTiling& tiling, const AttentionCase& test) {
    EXPECT_TRUE(same_bytes(test.expected, attend(test, 0, tiling.launch)))
        << tiling.rows << " rows, " << tiling.keys << " keys, " << test.name;
}

class EachRowTiling : public testing::TestWithParam<SizedTiling> {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }

    // The same Br and Bc for the head size of the case.
    void expect_reference_bytes_of_size(const AttentionCase& test) {
        for (const SizedTiling& tiling : row_tilings(test.problem.dim))
            if (tiling.rows == GetParam().rows && tiling.keys == GetParam().keys && why_not(tiling).empty())
                expect_reference_bytes(tiling, test);
    }
};

TEST_P(EachRowTiling, GivesTheReferenceBytesOnRaggedShapes) {
    static const std::vector<AttentionCase> cases = [] { // the same for every tiling
        std::vector<AttentionCase> made;
        for (const int64_t dim : {1, 32, 33, 64})
            for (const int64_t n : {1, 33, 95, 200, 300})
                for (const CaseKind kind : kAllKinds) made.emplace_back(Problem{2, n, dim}, kind, 5);
        made.emplace_back(Problem{1, 1500, 64}, CaseKind::uniform, 5);
        made.emplace_back(Problem{1, 1500, 32}, CaseKind::fading, 5);
        made.push_back(AttentionCase::with_negative_zeros());
        return made;
    }();
    for (const AttentionCase& test : cases) expect_reference_bytes_of_size(test);
}

// A reference that moves in any tile of a load moves there, not with the load.
TEST_P(EachRowTiling, MovesTheReferenceOncePerTileOf32Keys) {
    static const std::vector<AttentionCase> cases = [] { // the same for every tiling
        std::vector<AttentionCase> made;
        for (const int64_t dim : {1, 33, 64})
            for (const int64_t n : {33, 95, 200, 300}) {
                for (const Stray& stray : strays(n, dim))
                    if (stray.shows) made.push_back(stray_case(stray, dim));
                for (int64_t key = 0; dim > 1 && key < n; key += 32) // each tile in turn
                    made.push_back(stray_case(stray_high(n, n / 2, key, 90.0f, true), dim));
            }
        return made;
    }();
    for (const AttentionCase& test : cases) expect_reference_bytes_of_size(test);
}

// For compute-sanitizer: two loads of keys, the second ragged.
TEST(RowTilings, SanitizerShapes) {
    HW4_SKIP_WITHOUT_GPU();
    for (const int64_t dim : {20, 50})
        for (const SizedTiling& tiling : row_tilings(dim))
            if (why_not(tiling).empty())
                expect_reference_bytes(tiling, AttentionCase({1, tiling.keys + 40, dim}, CaseKind::brink, 3));
}

INSTANTIATE_TEST_SUITE_P(Exact, EachRowTiling, testing::ValuesIn(row_tilings(1)), [](const auto& instance) {
    return std::to_string(instance.param.rows) + "_rows_" + std::to_string(instance.param.keys) + "_keys";
});

} // namespace
} // namespace hw4::gpu
