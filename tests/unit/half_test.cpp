// bf16 and fp16: what the references and the CPU's kernels on widened numbers give, and which numbers are refused.
#include <gtest/gtest.h>

#include <cmath>

#include "src/bench/exact_rows.h"
#include "tests/support/attention_case.h"
#include "tests/support/compute_batches.h"
#include "tests/support/like_reference.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

using test::Failure;
using test::failure_of;

std::vector<float> rounded(Element element, std::vector<float> values) {
    round_all(element, values.data(), values.size(), values.data());
    return values;
}

Problem grouped_heads(int64_t batches, int64_t queries, int64_t keys, int64_t dim) {
    Problem problem(batches, queries, dim);
    problem.heads = 4;
    problem.kv_heads = 2;
    problem.keys = keys;
    problem.mask = Mask::causal;
    return problem;
}

class HalfContract : public testing::TestWithParam<const Contract*> {
protected:
    static const Contract& contract() { return *GetParam(); }
    static Element element() { return GetParam()->element; }
    // The largest relative error of a rounding.
    static double unit() { return element() == Element::bf16 ? 0x1p-8 : 0x1p-11; }
};

TEST_P(HalfContract, IsF32OnRoundedNumbersAndRounded) {
    for (const Problem& problem : {Problem{2, 70, 33}, grouped_heads(2, 40, 70, 8)}) {
        const AttentionCase half(problem, CaseKind::uniform, 3, contract());
        const std::vector<float> inputs = rounded(element(), half.qkv);
        ASSERT_NE(inputs, half.qkv);
        std::vector<float> wanted(half.expected.size());
        std::vector<RowStatistics> statistics(half.statistics.size());
        compute_by_reference(kF32, problem, inputs.data(), wanted.data(), statistics.data());
        EXPECT_FALSE(same_bytes(wanted, half.expected)) << half.name;
        EXPECT_TRUE(same_bytes(rounded(element(), wanted), half.expected)) << half.name;
        EXPECT_TRUE(same_statistics(statistics, half.statistics)) << half.name;
    }
}

// Half a unit in the last place of the type, for values up to the largest of V, beside the error of f32.
TEST_P(HalfContract, IsAsNearToFloat64AsItsLastRoundingAllows) {
    for (const int64_t keys : {1, 30, 700})
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::normal}) {
            Problem problem(1, 32, 64); // as many rows as are looked at
            problem.keys = keys;
            const AttentionCase half(problem, kind, 4, contract());
            const std::vector<float> inputs = rounded(element(), half.qkv);
            const bench::CaseData data{problem, {inputs.begin(), inputs.end()}};
            const bench::RowError error = bench::error_of_rows(data, half.expected.data());
            ASSERT_EQ(error.rows, 32);
            const double of_f32 = static_cast<double>(4 * keys + 16) * 0x1p-24 * 6; // |V| < 6
            EXPECT_LE(error.largest, unit() * error.reference + of_f32) << half.name;
            EXPECT_GE(error.largest, keys == 1 ? 0 : unit() / 16 * error.reference) << half.name << " is rounded";
        }
}

// For any number of threads, in a batch and alone, with other rows beside it.
TEST_P(HalfContract, GivesARowTheSameBytesWhereverItIs) {
    const Problem problem = grouped_heads(6, 50, 90, 20);
    const AttentionCase half(problem, CaseKind::spread, 5, contract());
    for (const cpu::Kernel& kernel : kernels_like_reference(contract())) {
        for (const int threads : {1, 2, 7}) {
            std::vector<float> out(half.expected.size(), NAN);
            cpu::compute_batches(kernel, problem, half.qkv.data(), out.data(), threads);
            EXPECT_TRUE(same_bytes(half.expected, out)) << kernel.name << ", " << threads;
        }
        const size_t in = 4 * problem.batch_input_floats();
        const size_t at = 4 * problem.batch_output_floats();
        std::vector<float> alone(problem.batch_output_floats(), NAN);
        cpu::compute_batches(kernel, problem.of_batches(1), half.qkv.data() + in, alone.data(), 3);
        const auto* const there = half.expected.data() + at;
        EXPECT_TRUE(same_bytes({there, there + alone.size()}, alone)) << kernel.name;
    }
}

// Scores that move the reference, denormals, one key above all, no key at all; with d beyond what other contracts take.
TEST_P(HalfContract, GivesTheReferenceBytesOnKindsAndCorners) {
    Problem blind(1, 40, 33);
    blind.keys = 7;
    blind.mask = Mask::causal;
    for (const Problem& problem : {Problem{1, 1, 1}, Problem{2, 129, 1}, Problem{1, 65, 300}, blind})
        for (const CaseKind kind : {CaseKind::spread, CaseKind::denormal, CaseKind::dominant, CaseKind::huge,
                                    CaseKind::vzero, CaseKind::fading}) {
            const AttentionCase half(problem, kind, 7, contract());
            for (const cpu::Kernel& kernel : kernels_like_reference(contract())) {
                std::vector<float> out(half.expected.size(), NAN);
                std::vector<RowStatistics> rows(half.statistics.size(), {NAN, NAN, NAN});
                cpu::compute_batches(kernel, problem, half.qkv.data(), out.data(), 2, rows.data());
                EXPECT_TRUE(same_bytes(half.expected, out)) << kernel.name << ", " << half.name;
                EXPECT_TRUE(same_statistics(half.statistics, rows)) << kernel.name << ", " << half.name;
            }
        }
}

// In several pieces, whose threads must not come into each other's way.
TEST_P(HalfContract, RoundsLongHeadsInPieces) {
    Problem problem(1, 3, 40000);
    problem.keys = 5;
    const AttentionCase half(problem, CaseKind::uniform, 6, contract());
    std::vector<float> out(half.expected.size(), NAN);
    cpu::compute_batches(kernels_like_reference(contract()).back(), problem, half.qkv.data(), out.data(), 4);
    EXPECT_TRUE(same_bytes(half.expected, out));
}

TEST_P(HalfContract, TakesFilesOfItsElementAndOfFloat32) {
    Problem problem(1, 2, 3);
    EXPECT_EQ(why_not(contract(), problem), "");
    problem.element = element();
    EXPECT_EQ(why_not(contract(), problem), "");
    problem.element = element() == Element::bf16 ? Element::fp16 : Element::bf16;
    const std::string other = name_of(problem.element);
    const std::string name = contract().name;
    EXPECT_EQ(why_not(contract(), problem),
              "has elements of " + other + ", the contract " + name + " takes float32 and " + name);
    EXPECT_EQ(why_not(kF32, problem), "");
    EXPECT_EQ(why_not(kFixed16, problem), "");
}

// In every operand: no infinity comes of a rounding, whatever it would be multiplied by.
TEST_P(HalfContract, RefusesNumbersThatItsTypeLacks) {
    const Problem problem(2, 3, 2);
    const float limit = overflow_of(element());
    std::vector<float> data(static_cast<size_t>(problem.input_rows() * problem.dim));
    const auto failure = [&] {
        return failure_of(
            [&] { DomainCheck("a.in", problem, contract().domain).check(0, problem.input_rows(), data.data()); });
    };
    const std::string need = element() == Element::bf16
                                 ? "3.39617753e+38 is infinite as bf16, need a magnitude below 3.39617753e+38"
                                 : "65520 is infinite as fp16, need a magnitude below 65520";
    const std::pair<size_t, std::string> places[] = {{5, "batch 0, Q, row 2, column 1: "},
                                                     {18 + 6, "batch 1, K, row 0, column 0: -"},
                                                     {18 + 12 + 3, "batch 1, V, row 1, column 1: "}};
    for (const auto& [place, words] : places) {
        data[place] = words.back() == '-' ? -limit : limit;
        EXPECT_EQ(failure(), (Failure{ExitCode::bad_data, std::string("a.in: ").append(words).append(need)}));
        data[place] = NAN;
        EXPECT_NE(failure().message.find("nan, need a finite number"), std::string::npos);
        data[place] = 0;
    }
    data[5] = std::nextafter(limit, 0.0f);
    EXPECT_EQ(failure(), Failure{});
}

INSTANTIATE_TEST_SUITE_P(Types, HalfContract, testing::Values(&kBf16, &kFp16),
                         [](const auto& instance) { return std::string(instance.param->name); });

TEST(HalfContracts, AreComparedByABound) {
    for (const Contract* contract : contracts())
        EXPECT_EQ(contract->compared == Compared::bound, contract->element != Element::float32) << contract->name;
}

} // namespace
} // namespace hw4
