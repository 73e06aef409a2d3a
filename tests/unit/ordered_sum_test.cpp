#include "src/ranks/ordered_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/ranks/ranks.h"

namespace hw4 {
namespace {

using Numbers = std::vector<float>;

// The numbers are so far apart in magnitude that hardly any two orders of addition give the same sum.
Numbers contribution(int index, size_t count) {
    Numbers numbers;
    for (size_t i = 0; i < count; ++i)
        numbers.push_back(
            std::ldexp(1.0f + static_cast<float>(i % 97) * 0x1p-20f, (index * 7 + static_cast<int>(i)) % 25));
    return numbers;
}

void add(Numbers& sum, const Numbers& more) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

Numbers tree_sum(int first, int width, size_t count) {
    return node_sum(
        first, width, [&](int index) { return contribution(index, count); }, add);
}

// Every rank's result; for slices, elements outside its slice are 0.
std::vector<Numbers> sums_by(int ranks, int contributions, size_t count, const std::vector<Piece>& slices = {}) {
    std::vector<Numbers> results(static_cast<size_t>(ranks));
    on_thread_ranks(ranks, [&](Ranks& rank) {
        const auto collectives = rank.collectives();
        OrderedSum ordered(*collectives, contributions, rank.rank(), rank.count());
        std::vector<Numbers> parts;
        OrderedSum::Parts places;
        for (const SumNode& part : ordered.parts()) parts.push_back(tree_sum(part.first, part.width, count));
        for (const Numbers& part : parts) places.push_back(part.data());
        if (parts.empty()) parts.emplace_back(count);
        Numbers& result = parts.front(); // the sum replaces the first part
        Numbers slice(count);
        if (slices.empty())
            ordered.sum(places, {0, count}, result.data());
        else
            ordered.sum_slices(places, slices, slice.data());
        results[static_cast<size_t>(rank.rank())] = slices.empty() ? result : slice;
    });
    return results;
}

TEST(NodeSum, IsTheTreeOfTheContract) {
    const auto text = [](int width) {
        return node_sum(
            0, width, [](int index) { return std::to_string(index); },
            [](std::string& sum, const std::string& more) { sum = "(" + sum + "+" + more + ")"; });
    };
    EXPECT_EQ(text(1), "0");
    EXPECT_EQ(text(2), "(0+1)");
    EXPECT_EQ(text(3), "((0+1)+2)");
    EXPECT_EQ(text(6), "(((0+1)+(2+3))+(4+5))");
    EXPECT_EQ(text(8), "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST(PartsOfRanks, AreOneEachWherePowersOfTwoDivide) {
    for (const int ranks : {1, 2, 4, 8}) {
        const std::vector<SumNode> parts = parts_of_ranks(8, ranks);
        ASSERT_EQ(parts.size(), static_cast<size_t>(ranks));
        for (int rank = 0; rank < ranks; ++rank)
            EXPECT_EQ(parts[static_cast<size_t>(rank)], (SumNode{rank * 8 / ranks, 8 / ranks, rank}));
    }
}

TEST(PartsOfRanks, AreWholeNodesElsewhere) {
    EXPECT_EQ(parts_of_ranks(8, 3), (std::vector<SumNode>{{0, 2, 0}, {2, 2, 1}, {4, 1, 1}, {5, 1, 2}, {6, 2, 2}}));
    EXPECT_EQ(parts_of_ranks(2, 3), (std::vector<SumNode>{{0, 1, 1}, {1, 1, 2}})); // no part for the first rank
}

TEST(OrderedSum, HasTheSameBytesForEveryNumberOfRanks) {
    constexpr size_t kCount = 1001; // not divisible by any number of ranks
    for (const int contributions : {1, 5, 8, 12}) {
        const Numbers wanted = tree_sum(0, contributions, kCount);
        for (const int ranks : {1, 2, 3, 4, 5, 7})
            for (const Numbers& sums : sums_by(ranks, contributions, kCount))
                EXPECT_EQ(sums, wanted) << contributions << " contributions, " << ranks << " ranks";
    }
}

TEST(OrderedSum, TakesMoreThanFitsAtOnceAndLessThanRanks) {
    for (const size_t count : {size_t{1}, size_t{3}, size_t{300001}})
        for (const Numbers& sums : sums_by(4, 4, count)) EXPECT_EQ(sums, tree_sum(0, 4, count));
}

TEST(OrderedSum, GivesEveryRankItsSlice) {
    constexpr size_t kCount = 200000;
    const std::vector<Piece> slices = {{10, 3}, {500, 150000}, {160000, 0}, {13, 99}};
    const Numbers wanted = tree_sum(0, 6, kCount);
    const std::vector<Numbers> sums = sums_by(4, 6, kCount, slices);
    for (size_t rank = 0; rank < slices.size(); ++rank) {
        const auto [first, count] = slices[rank];
        Numbers expected(kCount);
        std::copy_n(wanted.begin() + static_cast<std::ptrdiff_t>(first), count,
                    expected.begin() + static_cast<std::ptrdiff_t>(first));
        EXPECT_EQ(sums[rank], expected) << rank;
    }
}

TEST(ExchangedNumbers, AddsUpGathersAndPassesOn) {
    on_thread_ranks(3, [](Ranks& ranks) {
        const auto collectives = ranks.collectives();
        const auto mine = static_cast<float>(ranks.rank());
        Numbers sums = {mine, 1};
        collectives->sum(sums.data(), 2);
        EXPECT_EQ(sums, (Numbers{3, 3}));
        Numbers all = {mine, mine, mine, mine};
        collectives->all_gather(all.data(), {{0, 1}, {1, 1}, {2, 2}});
        EXPECT_EQ(all, (Numbers{0, 1, 2, 2}));
        const Numbers sent = {mine, mine + 10, mine + 20};
        Numbers received(3);
        collectives->all_to_all(sent.data(), {{0, 1}, {1, 1}, {2, 1}}, received.data(), {{2, 1}, {1, 1}, {0, 1}});
        EXPECT_EQ(received, (Numbers{mine * 10 + 2, mine * 10 + 1, mine * 10}));
    });
}

} // namespace
} // namespace hw4
