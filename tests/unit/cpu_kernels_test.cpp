// The CPU's kernels of f32's backward and of fixed: the reference's bytes for every shape, value and number of threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>

#include "src/contracts/fixed/forward.h"
#include "src/cpu/kernels.h"
#include "src/run/shares.h"
#include "tests/support/attention_case.h"
#include "tests/support/compute_batches.h"
#include "tests/support/cpu_subjects.h"
#include "tests/support/problems.h"

namespace hw4::cpu {
namespace {

// Memory aligned to a cache line, full of NaN, with marks behind its end.
class Marked {
public:
    explicit Marked(size_t bytes)
        : floats_(bytes / sizeof(float)),
          memory_(static_cast<float*>(std::aligned_alloc(64, (floats_ + kBeyond) * sizeof(float) / 64 * 64)),
                  std::free) {
        std::fill(get(), get() + floats_, NAN);
        std::fill(get() + floats_, get() + floats_ + kBeyond - 16, kMark);
    }
    float* get() const { return memory_.get(); }
    bool intact() const {
        return std::all_of(get() + floats_, get() + floats_ + kBeyond - 16, [](float x) { return x == kMark; });
    }

private:
    static constexpr size_t kBeyond = 4096;
    static constexpr float kMark = 1.25f;
    size_t floats_;
    std::unique_ptr<float, void (*)(void*)> memory_;
};

class EachBackwardKernel : public testing::TestWithParam<Kernel> {
protected:
    void SetUp() override {
        if (!GetParam().needs.processor()) GTEST_SKIP() << "this processor has no " << GetParam().name;
    }

    // The kernel's outputs. Checks that it reports every row and writes nothing beyond its scratch memory.
    static std::vector<float> launched(const Problem& problem, const float* in, int threads) {
        std::vector<float> out(problem.floats_in(problem.output_rows()), NAN);
        const Marked scratch(plan_of(GetParam(), problem, threads).scratch_bytes);
        Launch launch = launch_of(problem, in, out.data(), scratch.get(), threads);
        std::atomic<int64_t> done{0};
        launch.done = [&](int64_t rows) { done += rows; };
        GetParam().launch(launch);
        EXPECT_TRUE(scratch.intact()) << threads << " threads";
        EXPECT_EQ(done, problem.output_rows()) << threads << " threads";
        return out;
    }

    static void expect_reference_bytes(const Problem& problem, const Distribution& values,
                                       std::initializer_list<int> threads) {
        const AttentionCase& test = reference_case(problem, values, 11);
        SCOPED_TRACE(test.name);
        for (const int count : threads)
            EXPECT_TRUE(same_bytes(test.expected, launched(problem, test.qkv.data(), count))) << count << " threads";
    }

    // The kernel gets only the rows of the part.
    static void expect_reference_rows(const AttentionCase& test, const CasePart& part, int threads) {
        const Problem& own = part.problem;
        const std::vector<float> in = rows_of(part, own.operation->inputs, own.input_rows(), test.qkv);
        EXPECT_TRUE(same_bytes(rows_of(part, own.operation->outputs, own.output_rows(), test.expected),
                               launched(own, in.data(), threads)));
    }

    static void expect_block_of_keys(const AttentionCase& test, int64_t first, int64_t keys) {
        SCOPED_TRACE(test.name + ", " + std::to_string(keys) + " keys from " + std::to_string(first) + " on");
        CasePart part(test.problem);
        part.problem.operation = &kKeyGradients;
        part.problem.first_key = first;
        part.problem.block_keys = keys;
        for (const int threads : {1, 7}) expect_reference_rows(test, part, threads);
    }
};

// One row, full segments, tiles and panels of every width, one less and one more; odd and round d.
TEST_P(EachBackwardKernel, GivesTheReferenceBytesOnCorners) {
    for (const Mask mask : kEveryMask)
        for (const Sizes& sizes :
             {Sizes{1, 1, 1, 1, 1, 1}, Sizes{5, 1, 1, 1, 1, 64}, Sizes{2, 1, 1, 2, 2, 3}, Sizes{1, 1, 1, 48, 48, 8},
              Sizes{1, 1, 1, 63, 63, 32}, Sizes{1, 1, 1, 64, 64, 33}, Sizes{1, 1, 1, 65, 65, 40},
              Sizes{1, 1, 1, 97, 97, 100}, Sizes{1, 1, 1, 129, 129, 64}, Sizes{1, 1, 1, 191, 191, 16},
              Sizes{1, 1, 1, 192, 192, 7}, Sizes{2, 1, 1, 193, 193, 9}, Sizes{1, 1, 1, 400, 400, 12}})
            expect_reference_bytes(backward_of(sizes, mask), CaseKind::uniform, {1, 2, 7});
}

// References that move, rows that stray, scores beyond 2^21, denormals, and hidden scores larger than any visible one.
TEST_P(EachBackwardKernel, GivesTheReferenceBytesOnValuesOfEveryKind) {
    std::vector<Distribution> kinds(std::begin(kAllKinds), std::end(kAllKinds));
    for (const Distribution& timed : timed_distributions()) kinds.push_back(timed);
    for (const Distribution& values : kinds)
        for (const Mask mask : kEveryMask)
            expect_reference_bytes(backward_of({1, 1, 1, 150, 153, 33}, mask), values, {2});
}

// Heads that share keys, and either length longer: rows that see no key.
TEST_P(EachBackwardKernel, TakesHeadsAndTwoLengths) {
    for (const Mask mask : kEveryMask)
        for (const Sizes& sizes : {Sizes{1, 4, 2, 70, 200, 20}, Sizes{3, 6, 1, 200, 70, 5}, Sizes{2, 3, 3, 1, 130, 20},
                                   Sizes{2, 8, 4, 33, 1, 20}, Sizes{1, 2, 1, 300, 70, 8}, Sizes{20, 2, 1, 5, 65, 4}})
            expect_reference_bytes(backward_of(sizes, mask), CaseKind::spread, {1, 2, 7});
}

// Some rows see no key, some groups of rows see no key of a block, and some heads share keys.
TEST_P(EachBackwardKernel, GivesSomeOfTheGradients) {
    for (const Mask mask : kEveryMask)
        for (const Sizes& sizes : {Sizes{1, 1, 1, 200, 200, 33}, Sizes{2, 2, 1, 300, 70, 8}, Sizes{1, 3, 1, 70, 200, 5},
                                   Sizes{1, 1, 1, 2200, 2200, 2}}) {
            const AttentionCase& test = reference_case(backward_of(sizes, mask), CaseKind::spread, 11);
            const int shares = mask == Mask::none ? 3 : 5;
            for (const std::vector<CasePart>& parts : divide_into_parts(test.problem, shares, Gradients::cut))
                for (const CasePart& part : parts) {
                    SCOPED_TRACE(test.name + " in " + std::to_string(shares));
                    expect_reference_rows(test, part, 2);
                }
        }
}

// Blocks of keys may begin and end anywhere.
TEST_P(EachBackwardKernel, GivesGradientsOfAnyBlockOfKeys) {
    for (const Mask mask : kEveryMask) {
        const AttentionCase& test = reference_case(backward_of({1, 2, 1, 130, 150, 7}, mask), CaseKind::uniform, 11);
        for (const auto& [first, keys] : {std::array<int64_t, 2>{0, 1}, {37, 100}, {149, 1}, {63, 66}, {0, 150}})
            expect_block_of_keys(test, first, keys);
    }
    // Row 1023, the last of a group of rows, is the first that sees the block.
    expect_block_of_keys(reference_case(backward_of({1, 1, 1, 1030, 1030, 2}, Mask::causal), CaseKind::uniform, 11),
                         1023, 7);
}

// Forward ran earlier, and its results are used unchanged: an error in them shows in the gradients.
TEST_P(EachBackwardKernel, TakesAForwardThatWasDoneBefore) {
    const Problem problem = backward_of({2, 4, 2, 70, 90, 20}, Mask::causal);
    const AttentionCase& test = reference_case(problem, CaseKind::uniform, 11);
    Problem forward = problem;
    forward.operation = &kForward;
    std::vector<float> o(forward.floats_in(forward.output_rows()));
    std::vector<RowStatistics> statistics(static_cast<size_t>(forward.output_rows()));
    Launch done = launch_of(forward, test.qkv.data(), o.data(), nullptr, 2);
    for (size_t i = 0; i < kForward.inputs.size(); ++i)
        done.in[i] = tensor_at(problem, kBackward.inputs, i, test.qkv.data(), size_t{20});
    done.statistics = statistics.data();
    launch_blocks(GetParam(), done);
    const auto gradients = [&] {
        std::vector<float> out(test.expected.size(), NAN);
        const Marked scratch(plan_of(GetParam(), problem, 2).scratch_bytes);
        Launch launch = launch_of(problem, test.qkv.data(), out.data(), scratch.get(), 2);
        launch.statistics = statistics.data();
        launch.forward_out = done.out[0];
        GetParam().launch(launch);
        return out;
    };
    EXPECT_TRUE(same_bytes(test.expected, gradients()));
    o.back() += 1;
    EXPECT_FALSE(same_bytes(test.expected, gradients()));
}

// Several groups of 1024 rows. One thread has memory for the pairs of part of a head, seven threads for all of it.
TEST_P(EachBackwardKernel, TakesHeadsInSeveralRounds) {
    const Problem problem = backward_of({1, 2, 1, 1100, 2100, 3});
    EXPECT_LT(plan_of(GetParam(), problem, 1).scratch_bytes, plan_of(GetParam(), problem, 7).scratch_bytes);
    expect_reference_bytes(problem, CaseKind::uniform, {1, 2, 7});
    expect_reference_bytes(backward_of({1, 1, 1, 2100, 1100, 3}, Mask::causal), CaseKind::uniform, {1, 2, 7});
    // One thread has memory for two of the three slabs that share keys; the second round takes no slab of the next
    // head.
    expect_reference_bytes(backward_of({2, 3, 1, 192, 2300, 1}), CaseKind::uniform, {1});
    // Several heads per round, and fewer in the last.
    expect_reference_bytes(backward_of({5, 1, 1, 600, 600, 4}), CaseKind::uniform, {1, 2, 7});
    expect_reference_bytes(backward_of({3000, 2, 1, 9, 11, 2}), CaseKind::uniform, {1, 2, 7});
}

// Rows are packed and summed in several stretches of columns.
TEST_P(EachBackwardKernel, TakesRowsOfAnyLength) {
    for (const int64_t dim : {255, 256, 257, 512, 1000})
        expect_reference_bytes(backward_of({1, 2, 1, 70, 66, dim}, Mask::causal), CaseKind::spread, {2});
    expect_reference_bytes(backward_of({1, 1, 1, 2, 3, (1 << 16) + 37}), CaseKind::uniform, {1, 7});
}

// The workspace does not grow with the row length beyond a limit, nor cover a whole segment where rows are fewer.
TEST_P(EachBackwardKernel, TakesMemoryForWhatThereIs) {
    const BackwardKernel& steps = *GetParam().backward;
    EXPECT_EQ(steps.workspace_floats(192, 10'000'000), steps.workspace_floats(192, kGradientColumns));
    EXPECT_LT(plan_of(GetParam(), backward_of({1, 1, 1, 1, 10'000'000, 1}), 2).scratch_bytes, size_t{700'000'000});
    EXPECT_LT(plan_of(GetParam(), backward_of({1, 1, 1, 1, 1, 10'000'000}), 2).scratch_bytes, size_t{10'000});
}

// The memory is for as many batches as run at once; the last launch may have fewer.
TEST_P(EachBackwardKernel, NeedsNoMoreForFewerBatches) {
    for (const Problem& problem : {backward_of({40, 2, 1, 600, 600, 4}), backward_of({40, 1, 1, 9, 9, 300})})
        for (int64_t batches = 1; batches < problem.batches; ++batches)
            EXPECT_LE(plan_of(GetParam(), problem.of_batches(batches), 7).scratch_bytes,
                      plan_of(GetParam(), problem.of_batches(batches + 1), 7).scratch_bytes);
}

INSTANTIATE_TEST_SUITE_P(Cpu, EachBackwardKernel, testing::ValuesIn(cpu_kernels_of(kBackward, &kF32)),
                         [](const auto& instance) { return std::string(instance.param.name); });

// The kernels of the contracts of digits, on numbers that no kind of a generated case has.

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
