// How the blocks of a kernel divide its work: every tile of every unit once, a unit's tiles in order and never two at a
// time, and about as many for each block.
#include "src/gpu/fixed/forward/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "src/gpu/fixed/forward/unit_rows.h"

namespace hw4::gpu::fixed_point {
namespace {

// A piece, and when its block does it: after so many tiles of its own.
struct Turn {
    unsigned first;
    unsigned end;
    int64_t block;
    int64_t index; // of the block's pieces
    int64_t time;
};

struct Division {
    std::map<int64_t, std::vector<Turn>> of_unit;
    std::vector<int64_t> load; // of each block

    Division(int64_t units, unsigned tiles, int64_t blocks) {
        const Shares shares = Shares::of(units, tiles, blocks);
        for (uint32_t block = 0; block < blocks; ++block) {
            const Share share = shares.share(block);
            int64_t time = 0;
            for (uint32_t i = 0; i < share.pieces; ++i) {
                const Piece piece = share.piece(i);
                of_unit[piece.unit].push_back({piece.first, piece.end, block, i, time});
                time += piece.end - piece.first;
            }
            load.push_back(time);
        }
        for (auto& unit : of_unit)
            std::sort(unit.second.begin(), unit.second.end(),
                      [](const Turn& a, const Turn& b) { return a.first < b.first; });
    }
};

class EachDivision : public testing::Test {
protected:
    template <class Check>
    static void for_each(const Check& check) {
        for (const int64_t blocks : {1, 2, 3, 7, 132, 396})
            for (const int64_t units : {int64_t{1}, blocks - 1, blocks, blocks + 1, blocks + blocks / 2, 2 * blocks - 1,
                                        2 * blocks, 2 * blocks + 1, 5 * blocks + 2})
                for (const unsigned tiles : {1u, 2u, 3u, 17u, 64u}) {
                    if (units < 1) continue;
                    SCOPED_TRACE(std::to_string(units) + " units of " + std::to_string(tiles) + " tiles for " +
                                 std::to_string(blocks) + " blocks");
                    check(units, tiles, Division(units, tiles, std::min(blocks, units)));
                }
    }
};

TEST_F(EachDivision, HasEveryTileOnce) {
    for_each([](int64_t units, unsigned tiles, const Division& division) {
        ASSERT_EQ(division.of_unit.size(), static_cast<size_t>(units));
        EXPECT_EQ(division.of_unit.begin()->first, 0);
        EXPECT_EQ(division.of_unit.rbegin()->first, units - 1);
        for (const auto& unit : division.of_unit) {
            unsigned next = 0;
            for (const Turn& turn : unit.second) {
                EXPECT_EQ(turn.first, next);
                EXPECT_GT(turn.end, turn.first);
                next = turn.end;
            }
            EXPECT_EQ(next, tiles);
        }
    });
}

TEST_F(EachDivision, IsEven) {
    for_each([](int64_t, unsigned, const Division& division) {
        const auto ends = std::minmax_element(division.load.begin(), division.load.end());
        EXPECT_LE(*ends.second - *ends.first, 1);
    });
}

// The kernel relies on it: who goes on with a unit looks for it at the next block, which has begun with it.
TEST_F(EachDivision, HandsAUnitOnOnceAtMostFromTheNextBlockAndInTime) {
    for_each([](int64_t, unsigned, const Division& division) {
        for (const auto& unit : division.of_unit) {
            ASSERT_LE(unit.second.size(), 2u);
            if (unit.second.size() == 1) continue;
            const Turn& head = unit.second[0];
            const Turn& rest = unit.second[1];
            EXPECT_EQ(head.block, rest.block + 1);
            EXPECT_EQ(head.index, 0);
            EXPECT_LE(head.end - head.first, rest.time);
        }
    });
}

constexpr int kMultiprocessors = 132; // of an H200

TEST(Shares, EveryBlockGetsSomeOfTheLastUnitsOfBatches) {
    constexpr int64_t kUnits = 11; // of a batch: a divisor of the number of blocks
    const Shares shares = Shares::of(500 * kUnits, 32, kMultiprocessors);
    for (uint32_t block = 0; block < kMultiprocessors; ++block) {
        const Share share = shares.share(block);
        int64_t last = 0;
        for (uint32_t i = 0; i < share.pieces; ++i) last += share.piece(i).unit % kUnits == kUnits - 1 ? 1 : 0;
        EXPECT_GE(last, share.pieces / kUnits - 1);
        EXPECT_LE(last, share.pieces / kUnits + 2);
    }
}

TEST(Divisor, DividesAsTheInstructionWould) {
    const std::vector<uint32_t> numbers = {
        1,     2,     3,     5,       7,       11,         64,         131,        132,        133,       396,
        65535, 65536, 65537, 1000003, 9999991, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
    for (const uint32_t number : numbers) {
        const Divisor by(number);
        EXPECT_EQ(by.number(), number);
        for (const uint32_t times : numbers)
            for (const uint32_t more : {0u, 1u, number / 2, number - 1}) {
                const uint32_t n = number * times + more; // modulo 2^32
                EXPECT_EQ(by.quotient(n), n / number) << n << " / " << number;
                EXPECT_EQ(by.remainder(n), n % number) << n << " % " << number;
            }
    }
}

TEST(TakesJoint, WhereSequencesAreLongAndUnitsMany) {
    EXPECT_TRUE(takes_joint(4, 16384, 16384, 3, kMultiprocessors));
    EXPECT_TRUE(takes_joint(500, 2048, 2048, 3, kMultiprocessors));
    EXPECT_TRUE(takes_joint(300, 1024, 1024, 3, kMultiprocessors));
    EXPECT_TRUE(takes_joint(300, 512, 512, 3, kMultiprocessors));
    EXPECT_FALSE(takes_joint(300, 511, 511, 4, kMultiprocessors));
    EXPECT_FALSE(takes_joint(300, 512, 511, 3, kMultiprocessors)); // one row more is missing than an eighth
    EXPECT_TRUE(takes_joint(12, 2048, 2048, 3, 12 * 11));          // a unit for each multiprocessor
    EXPECT_FALSE(takes_joint(12, 2048, 2048, 3, 12 * 11 + 1));
    EXPECT_FALSE(takes_joint(300, 640, 640, 3, kMultiprocessors)); // a sixth of the units' rows is missing
    EXPECT_TRUE(takes_joint(800, 1024, 1024, 4, kMultiprocessors));
    EXPECT_FALSE(takes_joint(9600, 128, 128, 3, kMultiprocessors));
    EXPECT_FALSE(takes_joint(1, 16384, 16384, 3, kMultiprocessors)); // 86 units
    EXPECT_FALSE(takes_joint(4, 16384, 1024, 3, kMultiprocessors));  // of a part of the queries
}

// What fixed_gpu_kernels_test.cu counts on.
TEST(TakesJoint, TheLongSequencesOfTheGpuTests) {
    EXPECT_TRUE(takes_joint(kMultiprocessors / 2 + 1, 700, 700, 3, kMultiprocessors));
    EXPECT_TRUE(takes_joint(2 * kMultiprocessors / 3 + 1, 700, 700, 4, kMultiprocessors));
    // A group without rows, and a round of whole units, besides those that are cut.
    EXPECT_GE(units_for(700, 3) * 3 * kGroupRows - 700, kGroupRows);
    EXPECT_GE(units_for(700, 4) * 4 * kGroupRows - 700, kGroupRows);
    EXPECT_GT((kMultiprocessors / 2 + 1) * units_for(700, 3), 2 * kMultiprocessors);
    EXPECT_GT((2 * kMultiprocessors / 3 + 1) * units_for(700, 4), 2 * kMultiprocessors);
    EXPECT_TRUE(takes_joint(kMultiprocessors / 4, 2048, 1024, 4, kMultiprocessors)); // in parts
    EXPECT_TRUE(takes_joint(kMultiprocessors / 2 + 1, 520, 520, 3, kMultiprocessors));
    EXPECT_TRUE(takes_joint(kMultiprocessors / 2 + 1, 700, 700, 4, kMultiprocessors));
}

} // namespace
} // namespace hw4::gpu::fixed_point
