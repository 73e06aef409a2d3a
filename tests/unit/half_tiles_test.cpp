// The kernels of bf16 that multiply its numbers directly: the same tiles on every machine, and on a plain C++ machine
// that runs anywhere.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "src/cpu/half/attention_tiles.h"
#include "src/cpu/kernels.h"
#include "tests/support/attention_case.h"
#include "tests/support/compute_batches.h"
#include "tests/support/half_bound.h"
#include "tests/support/problems.h"

namespace hw4::cpu {

// The machine of src/cpu/half/attention_tiles.h in plain C++: it does what the manual says of the instructions.
// Denormal inputs and results count as zeros, whatever the processor does elsewhere.
struct PlainFloats {
    float x[16] = {};

    PlainFloats() = default;
    explicit PlainFloats(float value) {
        for (float& lane : x) lane = value;
    }
    static PlainFloats load(const float* from) { return load_anywhere(from); }
    static PlainFloats load_anywhere(const float* from) {
        PlainFloats loaded;
        for (int i = 0; i < 16; ++i) loaded.x[i] = from[i];
        return loaded;
    }
    void store(float* to) const {
        for (int i = 0; i < 16; ++i) to[i] = x[i];
    }
    template <class Lane>
    static PlainFloats of(Lane lane) {
        PlainFloats made;
        for (int i = 0; i < 16; ++i) made.x[i] = lane(i);
        return made;
    }
};

struct PlainInts {
    int32_t x[16];

    void store(int32_t* to) const {
        for (int i = 0; i < 16; ++i) to[i] = x[i];
    }
};

inline PlainFloats operator+(PlainFloats a, PlainFloats b) {
    return PlainFloats::of([&](int i) { return a.x[i] + b.x[i]; });
}
inline PlainFloats operator-(PlainFloats a, PlainFloats b) {
    return PlainFloats::of([&](int i) { return a.x[i] - b.x[i]; });
}
inline PlainFloats operator*(PlainFloats a, PlainFloats b) {
    return PlainFloats::of([&](int i) { return a.x[i] * b.x[i]; });
}
inline PlainFloats operator/(PlainFloats a, PlainFloats b) {
    return PlainFloats::of([&](int i) { return a.x[i] / b.x[i]; });
}
inline PlainFloats fused(PlainFloats a, PlainFloats b, PlainFloats c) {
    return PlainFloats::of([&](int i) { return hw4::fused(a.x[i], b.x[i], c.x[i]); });
}
inline PlainFloats larger(PlainFloats a, PlainFloats b) {
    return PlainFloats::of([&](int i) { return hw4::larger(a.x[i], b.x[i]); });
}
inline PlainFloats add_exponent_above(PlainFloats least, PlainFloats x, PlainFloats y, PlainFloats t) {
    return PlainFloats::of([&](int i) { return hw4::cpu::add_exponent_above(least.x[i], x.x[i], y.x[i], t.x[i]); });
}
inline bool any_above(PlainFloats a, PlainFloats b) {
    bool any = false;
    for (int i = 0; i < 16; ++i) any = any || a.x[i] > b.x[i];
    return any;
}

struct PlainTiles {
    using F = PlainFloats;
    using I = PlainInts;
    struct Session {};

    template <class T>
    static void transpose4(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
        for (int64_t row = 0; row < 4; ++row)
            for (int64_t x = 0; x < 4; ++x) to[x * to_stride + row] = from[row * from_stride + x];
    }
    static F widened(const uint16_t* from) {
        return F::of([&](int i) { return float_of(uint32_t{from[i]} << 16); });
    }
    static I pair(F low, F high) {
        I words{};
        for (int i = 0; i < 16; ++i)
            words.x[i] = static_cast<int32_t>((bits_of(low.x[i]) + 0x8000u) >> 16 |
                                              ((bits_of(high.x[i]) + 0x8000u) & 0xffff0000u));
        return words;
    }

    static float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

    // Multiplies 16 columns and 16 rows: even and odd places have separate sums, added first to each other, then to c.
    static void add_tile(const uint16_t* columns, const uint16_t* rows, float* c) {
        for (int64_t x = 0; x < 16; ++x)
            for (int64_t row = 0; row < 16; ++row) {
                float sums[2] = {};
                for (int64_t place = 0; place < 32; ++place) {
                    const float a = float_of(uint32_t{columns[x * 32 + place]} << 16);
                    const float b = float_of(uint32_t{rows[place / 2 * 32 + row * 2 + place % 2]} << 16);
                    sums[place % 2] = flushed(std::fma(flushed(a), flushed(b), sums[place % 2]));
                }
                c[x * 32 + row] = flushed(flushed(c[x * 32 + row]) + flushed(sums[0] + sums[1]));
            }
    }

    template <bool kAdds>
    static void products(const uint16_t* columns, int64_t block, const uint16_t* rows, int64_t steps, float* c) {
        for (int64_t i = 0; i < 32 * 32 && !kAdds; ++i) c[i] = 0.0f;
        for (int64_t step = 0; step < steps; ++step)
            for (int64_t x = 0; x < 2; ++x)
                for (int64_t r = 0; r < 2; ++r)
                    add_tile(columns + x * block + step * 16 * 32, rows + (step * 2 + r) * 16 * 32,
                             c + x * 16 * 32 + r * 16);
    }
};

namespace {

using Values = std::vector<float>;

Kernel plain_kernel() {
    static constexpr BlockKernel blocks = TileAttention<PlainTiles>::blocks([] { return true; });
    return kernel_by_blocks("bf16_plain", "for tests", kBf16, blocks);
}

std::vector<Kernel> tile_kernels() {
    std::vector<Kernel> list = {plain_kernel()};
    for (const Kernel& kernel : kernels())
        if (kernel.under == &kBf16 && kernel.needs.elements.has(Element::bf16)) list.push_back(kernel);
    return list;
}

class HalfTiles : public testing::TestWithParam<Kernel> {
protected:
    void SetUp() override {
        if (!GetParam().needs.processor()) GTEST_SKIP() << "this processor has no " << GetParam().name;
    }

    static Values attend(const Problem& problem, const Values& values, int threads = 1,
                         RowStatistics* statistics = nullptr) {
        Values out(problem.floats_in(problem.output_rows()), NAN);
        compute_batches(GetParam(), problem, values.data(), out.data(), threads, statistics);
        return out;
    }
    static void expect_within_bound(const Problem& problem, const Values& values) {
        EXPECT_TRUE(HalfRows(problem, Element::bf16, values).hold(attend(problem, values)));
    }
    static void expect_within_bound(const Problem& problem, const Distribution& kind = CaseKind::uniform) {
        expect_within_bound(problem, values_of(problem, kind));
    }
};

// Full and partial steps, blocks, tiles and groups.
TEST_P(HalfTiles, AreWithinTheBound) {
    for (const int64_t dim : {1, 16, 31, 33, 64, 100})
        for (const int64_t keys : {1, 31, 33, 128, 129, 200}) expect_within_bound(Problem(1, 35, dim).of_keys(keys));
    for (const Problem& problem : {Problem{1, 200, 8}, Problem{3, 20, 256}, Problem{1, 3, 1024}})
        expect_within_bound(problem);
}

// The diagonal at every place of a tile, rows that see no key; and heads that share keys.
TEST_P(HalfTiles, AreWithinTheBoundUnderTheMask) {
    for (const int64_t queries : {1, 33, 200})
        for (const int64_t keys : {1, 32, 70, 129, 161, 300}) expect_within_bound(causal_problem(queries, keys, 20));
    expect_within_bound(with_heads(causal_problem(40, 70, 33), 2, 6, 2));
}

TEST_P(HalfTiles, AreWithinTheBoundOnEveryKind) {
    for (const auto& [n, dim] : {std::pair{160, 64}, {140, 33}})
        for (const Mask mask : kEveryMask)
            for (const CaseKind kind :
                 {CaseKind::equal, CaseKind::negative, CaseKind::spread, CaseKind::denormal, CaseKind::dominant,
                  CaseKind::vzero, CaseKind::fading, CaseKind::climb, CaseKind::normal, CaseKind::low})
                expect_within_bound(problem_of({1, 1, 1, n, n, dim}, mask), kind);
}

// Denormal numbers that matter because they meet huge ones; the instructions would take them for zeros. They are in a
// row and in a key, beside rows and keys without denormals.
TEST_P(HalfTiles, CountDenormalNumbersThatMeetHugeOnes) {
    for (const int64_t dim : {1, 40}) {
        const Problem problem = Problem(1, 40, dim).of_keys(150);
        Values values = values_of(problem, CaseKind::uniform);
        const auto last = static_cast<size_t>(dim - 1);
        const auto set_last = [&](float of_query, float of_key) {
            each_query(values, problem, [&](float* q, int64_t query) {
                std::fill_n(q, dim, 0.0f);
                q[last] = of_query * static_cast<float>(query % 4);
            });
            each_key(values, problem, [&](float* key, float*, int64_t index) {
                std::fill_n(key, dim, 0.0f);
                key[last] = of_key * static_cast<float>(index % 3);
            });
        };
        for (const auto& [query, key] : {std::pair{0x1p-128f, 0x1p125f}, std::pair{0x1p124f, 0x1p-127f}}) {
            set_last(query, key);
            expect_within_bound(problem, values);
            const Values out = attend(problem, values);
            EXPECT_FALSE(same_bytes(row_of(out, problem, 0), row_of(out, problem, 3))) << "all scores are alike";
        }
    }
}

// Values below the normal numbers, and values with products below them.
TEST_P(HalfTiles, KeepTheLeastValues) {
    for (const float size : {0x1p-133f, 0x1p-128f, 0x1p-122f, 0x1p-110f}) {
        const Problem problem(1, 140, 16);
        Values values = values_of(problem, CaseKind::uniform);
        each_key(values, problem, [&](float*, float* value, int64_t) {
            for (int64_t t = 0; t < problem.dim; ++t) value[t] *= size;
        });
        expect_within_bound(problem, values);
    }
}

TEST_P(HalfTiles, StayFiniteAtTheEndOfTheDomain) {
    const Problem problem(1, 140, 16); // times the largest value less than 2^52
    for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread}) {
        Values values = values_of(problem, kind);
        each_key(values, problem, [&](float*, float* value, int64_t) {
            for (int64_t t = 0; t < problem.dim; ++t) value[t] = t % 2 == 0 ? 0x1.cp44f : -0x1.cp44f;
        });
        DomainCheck("domain", problem, kBf16.domain).check(0, problem.input_rows(), values.data());
        for (const float x : attend(problem, values)) ASSERT_TRUE(std::isfinite(x));
        expect_within_bound(problem, values);
    }
}

// Scores may be adjacent floats.
TEST_P(HalfTiles, GiveTheValueOfTheLargestOfHugeScores) {
    for (const int power : {16, 24, 60, 110})
        expect_value_of_the_largest(33, 3, power, [](const Problem& p, const Values& v) { return attend(p, v); });
}

TEST_P(HalfTiles, TellWhatRowsAddUpTo) {
    for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread, CaseKind::equal})
        for (const Problem& problem : {Problem{2, 70, 20}, causal_problem(140, 130, 33)}) {
            const Values values = values_of(problem, kind);
            std::vector<RowStatistics> rows(static_cast<size_t>(problem.output_rows()), {NAN, NAN, NAN});
            EXPECT_TRUE(same_bytes(attend(problem, values), attend(problem, values, 1, rows.data())));
            HalfRows(problem, Element::bf16, values).expect_logsumexps(kBf16, rows);
        }
}

// A row's bytes depend only on its query and the keys that it sees.

TEST_P(HalfTiles, GiveTheSameBytesWithAnyThreadsAndInAnyBatch) {
    const Problem problem = with_heads(causal_problem(50, 140, 20), 5, 4, 2);
    const Values values = values_of(problem, CaseKind::spread);
    const Values out = attend(problem, values);
    for (const int threads : {2, 7}) EXPECT_TRUE(same_bytes(out, attend(problem, values, threads))) << threads;
    const auto in = static_cast<int64_t>(problem.batch_input_floats());
    const auto there = static_cast<int64_t>(problem.batch_output_floats());
    EXPECT_TRUE(same_bytes({out.begin() + 3 * there, out.begin() + 4 * there},
                           attend(problem.of_batches(1), {values.begin() + 3 * in, values.begin() + 4 * in}, 3)));
}

// A row alone, with only the keys that it sees; numbers of one tile make other rows compute their scores as chains.
TEST_P(HalfTiles, GiveARowAloneTheSameBytes) {
    for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread, CaseKind::fading}) {
        const Problem problem = causal_problem(300, 300, 20);
        Values values = values_of(problem, kind);
        each_query(values, problem, [](float* q, int64_t query) { q[3] = query == 160 ? 0x1p70f : q[3]; });
        each_key(values, problem, [](float* key, float*, int64_t index) { key[5] = index == 150 ? 0x1p65f : key[5]; });
        const Values out = attend(problem, values);
        for (const int64_t query : {0, 1, 31, 32, 127, 128, 140, 161, 191, 192, 299}) {
            const Problem alone = Problem(1, 1, problem.dim).of_keys(query + 1);
            const Values one = query_of(problem, values, query, alone.keys);
            EXPECT_TRUE(same_bytes(row_of(out, problem, query), attend(alone, one))) << query;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Machines, HalfTiles, testing::ValuesIn(tile_kernels()),
                         [](const auto& instance) { return std::string(instance.param.name); });

// Outputs that are off by a few units in the last place, not of the type, not finite, or of another row.
TEST(HalfTilesBound, IsBrokenByAWrongOutput) {
    const AttentionCase test({1, 60, 64}, CaseKind::uniform, 3, kBf16);
    HalfRows rows(test.problem, Element::bf16, test.qkv);
    EXPECT_TRUE(rows.hold(test.expected));
    for (const float wrong : {rounded_to(Element::bf16, test.expected[100] + 0x1p-5f), test.expected[100] * 1.00001f,
                              NAN, test.expected[100 + 64]}) {
        Values out = test.expected;
        out[100] = wrong;
        EXPECT_FALSE(rows.hold(out)) << wrong;
    }
}

// Longer rows are for other kernels.
TEST(HalfTilesChoice, TakesRowsThatFit) {
    std::vector<Kernel> table;
    for (const Kernel& kernel : kernels())
        if (std::string(kernel.name) == "bf16_generic") table.push_back(kernel);
    table.push_back(plain_kernel());
    const auto chosen = [&](int64_t dim) { return std::string(choose_kernel("", {1, 2, dim}, kBf16, table).name); };
    EXPECT_EQ(chosen(1024), "bf16_plain");
    EXPECT_EQ(chosen(1025), "bf16_generic");
    EXPECT_EQ(plan_of(plain_kernel(), {1, 2, 1025}, 1).why_not,
              "kernel bf16_plain takes d up to 1024, this case has 1025");
}

} // namespace
} // namespace hw4::cpu
