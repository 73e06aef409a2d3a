// The kernels of the contracts of digits, on numbers that no kind of a generated case has.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "src/contracts/fixed/forward.h"
#include "tests/support/attention_case.h"
#include "tests/support/compute_batches.h"

namespace hw4::cpu {
namespace {

enum class Kind { outlier, steps, extremes, brink, faint };
constexpr Kind kKinds[] = {Kind::outlier, Kind::steps, Kind::extremes, Kind::brink, Kind::faint};
constexpr const char* kKindNames[] = {"outlier", "steps", "extremes", "brink", "faint"};

// Integers with all digits at their limits: 127, 127, 127 and 127, -128, -128. The two digits of their float rounded to
// 16 bits are at their limits too.
constexpr int32_t kExtremes[] = {0x7f7f7f, -0x7f7f7f, 0x7e7f80, -0x7e7f80};

// A number that, multiplied by the factor, gives this integer.
float number_for(int32_t n, float factor) {
    float x = static_cast<float>(n) / factor;
    for (int step = 0; x * factor != static_cast<float>(n) && step < 4; ++step)
        x = std::nextafter(x, x * factor < static_cast<float>(n) ? HUGE_VALF : -HUGE_VALF);
    return x;
}

AttentionCase make_case(Kind kind, int64_t tokens, int64_t dim, const Contract& contract) {
    std::mt19937 random(3);
    std::uniform_real_distribution<float> uniform(-3.0f, 3.0f);
    const auto count = static_cast<size_t>(tokens * dim);
    const auto row = [&](size_t i) { return static_cast<int>(static_cast<int64_t>(i) / dim); };
    const auto fill = [&](float* q, int64_t) {
        float* const k = q + count;
        float* const v = k + count;
        for (size_t i = 0; i < 3 * count; ++i) q[i] = uniform(random);
        switch (kind) {
        case Kind::outlier: // of one number in a tile
            for (float* const operand : {q, k, v}) operand[random() % count] = 3e5f;
            break;
        case Kind::steps: // V of very different magnitude between tiles
            for (size_t i = 0; i < count; ++i) v[i] = std::ldexp(v[i], row(i) / 64 * 37 % 150 - 110);
            break;
        case Kind::extremes: // the largest digits of both signs, and in every row the largest number
            for (float* const operand : {q, k, v}) {
                const float factor = operand == q ? fixed::query_factor(scale_for(dim).c) : fixed::kWiden;
                for (size_t i = 0; i < count; ++i) {
                    const bool begins = i % static_cast<size_t>(dim) == 0;
                    operand[i] = number_for(begins ? fixed::kLargest : kExtremes[random() % 4], factor) * 0x1p-21f;
                }
            }
            break;
        case Kind::brink: // scores of 2^14 to 2^32 close to each other, with a few bits of fraction or units of a few
            for (size_t i = 0; i < count; ++i) {
                q[i] = std::ldexp(1 + 1e-6f * q[i], 12 + row(i) % 17 - 8);
                const float apart = std::ldexp(1e-7f * k[i], row(i) % 4 * 2);
                k[i] = std::ldexp((row(i) / 64 % 2 != 0 ? -1.0f : 1.0f) * (1 + apart), 11);
            }
            break;
        case Kind::faint: // scores of 22 bits of fraction and more than there are
            for (size_t i = 0; i < count; ++i) {
                q[i] = std::ldexp(q[i], row(i) % 23 - 20);
                k[i] = std::ldexp(k[i], -(row(i) / 64 % 5));
            }
            break;
        }
    };
    return AttentionCase::filled({1, tokens, dim}, kKindNames[static_cast<int>(kind)], fill, contract);
}

std::vector<Kernel> fixed_kernels() {
    std::vector<Kernel> list;
    for (const Kernel& kernel : kernels())
        if (kernel.under == &kFixed || kernel.under == &kFixed16) list.push_back(kernel);
    return list;
}

class EachFixedKernel : public testing::TestWithParam<Kernel> {
protected:
    void SetUp() override {
        if (!GetParam().needs.processor()) GTEST_SKIP() << "this processor has no " << GetParam().name;
    }
    static void expect_reference(const AttentionCase& test) {
        std::vector<float> out(test.expected.size(), NAN);
        compute_batches(GetParam(), test.problem, test.qkv.data(), out.data(), 2);
        EXPECT_TRUE(same_bytes(test.expected, out)) << test.name;
    }
};

TEST(FixedExtremes, AreTheLargestDigits) {
    for (const int64_t dim : {7, 64, 256})
        for (const int32_t n : kExtremes) {
            const float factor = fixed::query_factor(scale_for(dim).c);
            const float q = number_for(n, factor) * 0x1p-21f;
            EXPECT_EQ(fixed::quantised(fixed::scaled_query(q, factor), fixed::factors(21)), n) << dim;
            EXPECT_EQ(fixed::quantised(number_for(n, fixed::kWiden) * 0x1p-21f, fixed::tile_factors(21)), n);
        }
    EXPECT_EQ(fixed::exponent_for(0x7f7f7fp-21f), 21);
    EXPECT_EQ(fixed::tile_exponent(number_for(fixed::kLargest, fixed::kWiden) * 0x1p-21f), 21);
}

TEST_P(EachFixedKernel, GivesTheReferenceBytesOnEveryKind) {
    for (const Kind kind : kKinds) {
        for (const int64_t tokens : {1, 64, 65, 200})
            for (const int64_t dim : {1, 7, 33, 64}) expect_reference(make_case(kind, tokens, dim, *GetParam().under));
        expect_reference(make_case(kind, 1000, 16, *GetParam().under));
        expect_reference(make_case(kind, 127, 256, *GetParam().under));
    }
}

TEST_P(EachFixedKernel, TakesTheLargestNumbers) {
    for (const AttentionCase& test : cases_of_the_largest_numbers(*GetParam().under)) expect_reference(test);
}

INSTANTIATE_TEST_SUITE_P(Cpu, EachFixedKernel, testing::ValuesIn(fixed_kernels()),
                         [](const auto& instance) { return instance.param.name; });

} // namespace
} // namespace hw4::cpu
