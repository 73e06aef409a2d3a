#include "src/problem/mask.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/problem/problem.h"

namespace hw4 {
namespace {

std::vector<int64_t> seen_under(Mask mask, int64_t queries, int64_t keys) {
    std::vector<int64_t> seen;
    for (int64_t query = 0; query < queries; ++query) seen.push_back(visible_keys(mask, queries, keys, query));
    return seen;
}

using Counts = std::vector<int64_t>;

TEST(MaskRule, CausalLetsAQuerySeeItselfAndWhatWasBefore) {
    EXPECT_EQ(seen_under(Mask::none, 3, 5), (Counts{5, 5, 5}));
    EXPECT_EQ(seen_under(Mask::causal, 4, 4), (Counts{1, 2, 3, 4}));
    EXPECT_EQ(seen_under(Mask::causal, 1, 1), (Counts{1}));
}

TEST(MaskRule, CausalIsAlignedAtTheLastQueryAndTheLastKey) {
    EXPECT_EQ(seen_under(Mask::causal, 3, 5), (Counts{3, 4, 5}));
    EXPECT_EQ(seen_under(Mask::causal, 1, 5), (Counts{5}));
    EXPECT_EQ(seen_under(Mask::causal, 5, 3), (Counts{0, 0, 1, 2, 3}));
    EXPECT_EQ(seen_under(Mask::causal, 3, 1), (Counts{0, 0, 1}));
}

TEST(MaskRule, ItsCountsAreThoseOfTheQueriesOneByOne) {
    for (const Mask mask : kEveryMask)
        for (int64_t queries = 1; queries <= 6; ++queries)
            for (int64_t keys = 1; keys <= 6; ++keys) {
                double pairs = 0;
                int64_t blind = 0;
                for (const int64_t seen : seen_under(mask, queries, keys)) {
                    pairs += static_cast<double>(seen);
                    blind += seen == 0;
                }
                EXPECT_EQ(visible_pairs(mask, queries, keys), pairs) << name_of(mask) << queries << " " << keys;
                EXPECT_EQ(blind_queries(mask, queries, keys), blind) << name_of(mask) << queries << " " << keys;
            }
}

} // namespace
} // namespace hw4
