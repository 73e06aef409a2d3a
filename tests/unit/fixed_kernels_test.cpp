#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/contracts/fixed/forward.h"
#include "src/cpu/kernels.h"
#include "tests/support/attention_case.h"
#include "tests/support/settings.h"

namespace hw4::cpu {
namespace {

using Values = std::vector<float>;

struct Case {
    std::string name;
    int64_t tokens;
    int64_t dim;
    Values q, k, v;

    Values expected(const Contract& contract) const {
        Values out(q.size(), NAN);
        contract.find(kForward)->reference({tokens, tokens, dim, {q.data(), k.data(), v.data()}, {out.data()}});
        return out;
    }
};

struct Free {
    void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, Free>;

// Poisoned: nothing may depend on what memory held before.
Memory memory_of(size_t bytes, int poison) {
    const size_t rounded = (bytes + 63) / 64 * 64;
    Memory memory(std::aligned_alloc(64, rounded));
    if (!memory) throw std::bad_alloc();
    std::memset(memory.get(), poison, rounded);
    return memory;
}

Values attend(const BlockKernel& kernel, const Case& test, int poison = 0xff) {
    const Memory prepared = memory_of(kernel.prepared_bytes(test.tokens, test.dim), poison);
    const int64_t most_rows = std::min(kernel.block_rows, test.tokens);
    const Memory workspace = memory_of(kernel.workspace_floats(most_rows, test.dim) * sizeof(float), poison);
    const int64_t tiles = kernel.tiles_of(test.tokens);
    const int64_t half = tiles / 2;
    kernel.prepare({test.k.data(), test.v.data(), test.tokens, test.dim, half, tiles}, prepared.get());
    kernel.prepare({test.k.data(), test.v.data(), test.tokens, test.dim, 0, half}, prepared.get());
    Values out(test.q.size(), NAN);
    for (int64_t row = 0; row < test.tokens; row += kernel.block_rows)
        kernel.attend({test.q.data() + row * test.dim, test.k.data(), test.v.data(), out.data() + row * test.dim,
                       std::min(kernel.block_rows, test.tokens - row), test.tokens, test.dim, scale_for(test.dim),
                       prepared.get()},
                      static_cast<float*>(workspace.get()));
    return out;
}

enum class Kind { uniform, normal, denormal, zeros, huge, outlier, steps, climb, extremes, brink, faint };
constexpr Kind kKinds[] = {Kind::uniform, Kind::normal, Kind::denormal, Kind::zeros, Kind::huge, Kind::outlier,
                           Kind::steps,   Kind::climb,  Kind::extremes, Kind::brink, Kind::faint};
constexpr const char* kKindNames[] = {"uniform", "normal", "denormal", "zeros", "huge", "outlier",
                                      "steps",   "climb",  "extremes", "brink", "faint"};

// Integers with all digits at their ends: 127, 127, 127 and 127, -128, -128. So are the two digits of their float
// rounded to 16 bits.
constexpr int32_t kExtremes[] = {0x7f7f7f, -0x7f7f7f, 0x7e7f80, -0x7e7f80};

// A number that, multiplied by the factor, is this integer.
float number_for(int32_t n, float factor) {
    float x = static_cast<float>(n) / factor;
    for (int step = 0; x * factor != static_cast<float>(n) && step < 4; ++step)
        x = std::nextafter(x, x * factor < static_cast<float>(n) ? HUGE_VALF : -HUGE_VALF);
    return x;
}

Case make_case(Kind kind, int64_t tokens, int64_t dim, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-3.0f, 3.0f);
    std::normal_distribution<float> normal;
    const auto count = static_cast<size_t>(tokens * dim);
    Case test{std::string(kKindNames[static_cast<int>(kind)]) + " N = " + std::to_string(tokens) +
                  ", d = " + std::to_string(dim),
              tokens,
              dim,
              Values(count),
              Values(count),
              Values(count)};
    const auto fill = [&](Values& values, const std::function<float()>& value) {
        for (float& x : values) x = value();
    };
    for (Values* values : {&test.q, &test.k, &test.v})
        fill(*values, [&] { return kind == Kind::normal ? normal(random) : uniform(random); });
    const auto row = [&](size_t i) { return static_cast<int64_t>(i) / dim; };
    switch (kind) {
    case Kind::uniform:
    case Kind::normal: break;
    case Kind::denormal:
        for (Values* values : {&test.q, &test.v}) fill(*values, [&] { return uniform(random) * 0x1p-140f; });
        break;
    case Kind::zeros: // of both signs, whole rows of them, and a whole V
        for (Values* values : {&test.q, &test.k})
            for (size_t i = 0; i < count; ++i)
                if (row(i) % 3 == 0 || random() % 2 == 0) (*values)[i] = random() % 2 ? 0.0f : -0.0f;
        fill(test.v, [&] { return random() % 2 ? 0.0f : -0.0f; });
        break;
    case Kind::huge: // scores far beyond 2^21 in base 2, whole numbers, and some rows of others
        for (size_t i = 0; i < count; ++i) {
            test.q[i] *= row(i) % 5 == 0 ? 1.0f : 1e4f;
            test.k[i] *= 1e4f;
        }
        break;
    case Kind::outlier: // of one number in a tile
        for (Values* values : {&test.q, &test.k, &test.v}) (*values)[random() % count] = 3e5f;
        break;
    case Kind::steps: // V of very different magnitude between tiles
        for (size_t i = 0; i < count; ++i)
            test.v[i] = std::ldexp(test.v[i], static_cast<int>(row(i) / 64 * 37 % 150) - 110);
        break;
    case Kind::climb: // references rise again and again, from below -2^21 to above 2^21
        for (size_t i = 0; i < count; ++i) {
            test.q[i] = std::fabs(test.q[i]) + 0.5f;
            const double place = static_cast<double>(row(i)) / static_cast<double>(tokens) * 2 - 1;
            test.k[i] = static_cast<float>(place * std::fabs(place) * 3e7) + test.k[i];
        }
        break;
    case Kind::extremes: // the largest digits of both signs
        for (Values* values : {&test.q, &test.k, &test.v}) {
            const float factor = values == &test.q ? fixed::query_factor(scale_for(dim).c) : fixed::kWiden;
            fill(*values, [&] { return number_for(kExtremes[random() % 4], factor) * 0x1p-21f; });
            for (int64_t i = 0; i < tokens; ++i) // the largest in every row
                (*values)[static_cast<size_t>(i * dim)] = number_for(fixed::kLargest, factor) * 0x1p-21f;
        }
        break;
    case Kind::brink: // scores of 2^14 to 2^32 close to each other, with a few bits of fraction or units of a few
        for (size_t i = 0; i < count; ++i) {
            const int apart = static_cast<int>(row(i) % 4) * 2;
            test.q[i] = std::ldexp(1 + 1e-6f * test.q[i], 12 + static_cast<int>(row(i) % 17) - 8);
            test.k[i] = std::ldexp((row(i) / 64 % 2 ? -1.0f : 1.0f) * (1 + std::ldexp(1e-7f * test.k[i], apart)), 11);
        }
        break;
    case Kind::faint: // scores of 22 bits of fraction and more than there are
        for (size_t i = 0; i < count; ++i) {
            test.q[i] = std::ldexp(test.q[i], static_cast<int>(row(i) % 23) - 20);
            test.k[i] = std::ldexp(test.k[i], -static_cast<int>(row(i) / 64 % 5));
        }
        break;
    }
    return test;
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
    void expect_reference(const Case& test) {
        EXPECT_TRUE(same_bytes(test.expected(*GetParam().under), attend(*GetParam().blocks, test))) << test.name;
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

TEST_P(EachFixedKernel, GivesTheReferenceBytesOnOddShapes) {
    for (const int64_t tokens : {1, 31, 63, 64, 65, 127, 128, 129, 200})
        for (const int64_t dim : {1, 7, 16, 32, 33, 40, 64, 100, 128, 256})
            expect_reference(make_case(tokens % 2 ? Kind::uniform : Kind::normal, tokens, dim, 1));
    for (const int64_t dim : {7, 64, 256}) expect_reference(make_case(Kind::uniform, 1000, dim, 2));
}

TEST_P(EachFixedKernel, GivesTheReferenceBytesOnEveryKind) {
    for (const Kind kind : kKinds) {
        for (const int64_t tokens : {1, 64, 65, 200})
            for (const int64_t dim : {1, 7, 33, 64}) expect_reference(make_case(kind, tokens, dim, 3));
        expect_reference(make_case(kind, 1000, 16, 4));
        expect_reference(make_case(kind, 127, 256, 5));
    }
}

// With d = 1 the factor of Q is above 1, and the largest numbers times it are beyond all floats; so are the largest
// keys times 21/16.
TEST_P(EachFixedKernel, TakesTheLargestNumbers) {
    constexpr float kMost = std::numeric_limits<float>::max();
    for (const int64_t dim : {1, 2}) {
        Case test = make_case(Kind::uniform, 70, dim, 8);
        test.name = "largest numbers, d = " + std::to_string(dim);
        for (size_t i = 0; i < test.q.size(); ++i) test.q[i] = i % 3 == 0 ? kMost : i % 3 == 1 ? -kMost : kMost / 1.5f;
        for (size_t i = 0; i < test.k.size(); ++i)
            test.k[i] = (i % 2 == 0 ? 0.05f : -0.05f) / static_cast<float>(1 + i % 7);
        expect_reference(test);
        std::swap(test.q, test.k);
        test.name += ", of K";
        expect_reference(test);
    }
}

// Minutes; for HW4_SOAK=1.
TEST_P(EachFixedKernel, GivesTheReferenceBytesOnEveryKindAndShape) {
    if (!test::soaks()) GTEST_SKIP() << "HW4_SOAK is not set";
    for (const Kind kind : kKinds)
        for (const int64_t tokens : {1, 31, 63, 64, 65, 127, 200, 1000})
            for (const int64_t dim : {1, 7, 16, 32, 33, 40, 64, 100, 128, 256})
                expect_reference(make_case(kind, tokens, dim, 7));
}

TEST_P(EachFixedKernel, DoesNotDependOnWhatMemoryHeld) {
    const Case test = make_case(Kind::uniform, 97, 33, 6);
    const Values expected = test.expected(*GetParam().under);
    for (const int poison : {0x00, 0x7f, 0x80, 0xff})
        EXPECT_TRUE(same_bytes(expected, attend(*GetParam().blocks, test, poison))) << poison;
}

INSTANTIATE_TEST_SUITE_P(Cpu, EachFixedKernel, testing::ValuesIn(fixed_kernels()),
                         [](const auto& instance) { return std::string(instance.param.name); });

} // namespace
} // namespace hw4::cpu
