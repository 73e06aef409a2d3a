// bf16 and fp16, forward and backward: what the references and the CPU's kernels on widened numbers give, and which
// numbers are refused.
#include <gtest/gtest.h>

#include <cmath>

#include "src/bench/exact_rows.h"
#include "src/cpu/aligned_memory.h"
#include "tests/support/attention_case.h"
#include "tests/support/compute_batches.h"
#include "tests/support/cpu_subjects.h"
#include "tests/support/like_reference.h"
#include "tests/support/problems.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

std::vector<float> rounded(Element element, std::vector<float> values) {
    round_all(element, values.data(), values.size(), values.data());
    return values;
}

class HalfContract : public testing::TestWithParam<const Contract*> {
protected:
    static const Contract& contract() { return *GetParam(); }
    static Element element() { return GetParam()->element; }
    // The largest relative rounding error.
    static double unit() { return element() == Element::bf16 ? 0x1p-8 : 0x1p-11; }
};

TEST_P(HalfContract, IsF32OnRoundedNumbersAndRounded) {
    for (const Problem& problem : {Problem{2, 70, 33}, with_heads(causal_problem(40, 70, 8), 2, 4, 2)}) {
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

// Half a unit in the last place of the type, for values up to the largest of V, plus the error of f32.
TEST_P(HalfContract, IsAsNearToFloat64AsItsLastRoundingAllows) {
    for (const int64_t keys : {1, 30, 700})
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::normal}) {
            Problem problem(1, 32, 64); // as many rows as the test checks
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

// Scores that move the reference, denormals, one key above all, no key at all; also d beyond other contracts' limits.
TEST_P(HalfContract, GivesTheReferenceBytesOnKindsAndCorners) {
    for (const Problem& problem :
         {Problem{1, 1, 1}, Problem{2, 129, 1}, Problem{1, 65, 300}, causal_problem(40, 7, 33)})
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

// A head in several pieces, with threads that must not interfere.
TEST_P(HalfContract, RoundsLongHeadsInPieces) {
    const Problem problem = Problem(1, 3, 40000).of_keys(5);
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

// In every operand a number that would round to infinity is refused, for every factor.
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

class HalfGradients : public HalfContract {
protected:
    // Calls `use` with every kernel that this processor has.
    template <class Use>
    static void each_kernel(const Use& use) {
        for (const cpu::Kernel& kernel : cpu_kernels_of(kBackward, &contract()))
            if (kernel.needs.processor()) use(kernel);
    }

    static void expect_reference_bytes(const AttentionCase& half, std::initializer_list<int> threads) {
        each_kernel([&](const cpu::Kernel& kernel) {
            for (const int count : threads) {
                std::vector<float> out(half.expected.size(), NAN);
                cpu::compute_batches(kernel, half.problem, half.qkv.data(), out.data(), count);
                EXPECT_TRUE(same_bytes(half.expected, out)) << kernel.name << ", " << half.name << ", " << count;
            }
        });
    }
};

TEST_P(HalfGradients, AreThoseOfF32OnRoundedNumbersAndRounded) {
    for (const Problem& problem :
         {backward_of({2, 1, 1, 70, 70, 33}), backward_of({2, 6, 2, 40, 70, 8}, Mask::causal)}) {
        const AttentionCase half(problem, CaseKind::uniform, 3, contract());
        const std::vector<float> inputs = rounded(element(), half.qkv);
        ASSERT_NE(inputs, half.qkv);
        std::vector<float> wanted(half.expected.size());
        compute_by_reference(kF32, problem, inputs.data(), wanted.data());
        EXPECT_FALSE(same_bytes(wanted, half.expected)) << half.name;
        EXPECT_TRUE(same_bytes(rounded(element(), wanted), half.expected)) << half.name;
    }
}

// Half a unit in the last place of the type, for gradients up to the largest, beside the error of f32.
TEST_P(HalfGradients, AreAsNearToFloat64AsTheirLastRoundingAllows) {
    for (const Mask mask : kEveryMask) {
        const AttentionCase half(backward_of({1, 1, 1, 32, 32, 64}, mask), CaseKind::normal, 4, contract());
        const std::vector<float> inputs = rounded(element(), half.qkv);
        const bench::CaseData data{half.problem, {inputs.begin(), inputs.end()}};
        const bench::RowError error = bench::error_of_rows(data, half.expected.data());
        ASSERT_EQ(error.rows, 3 * 32);
        EXPECT_LE(error.largest, 1.01 * unit() * error.reference) << half.name;
        EXPECT_GE(error.largest, unit() / 16 * error.reference) << half.name << " is rounded";
    }
}

// Any number of threads and any d; heads that share keys, and rows that see none.
TEST_P(HalfGradients, HaveTheReferenceBytesByEveryKernel) {
    for (const Mask mask : kEveryMask)
        for (const Sizes& sizes : {Sizes{1, 1, 1, 1, 1, 1}, Sizes{3, 4, 2, 70, 130, 20}, Sizes{2, 6, 1, 200, 70, 5},
                                   Sizes{1, 1, 1, 65, 66, 300}})
            expect_reference_bytes({backward_of(sizes, mask), CaseKind::spread, 5, contract()}, {1, 2, 7});
}

TEST_P(HalfGradients, HaveTheReferenceBytesOnKinds) {
    for (const CaseKind kind : {CaseKind::denormal, CaseKind::dominant, CaseKind::huge, CaseKind::vzero,
                                CaseKind::fading, CaseKind::gzero, CaseKind::gtiny})
        expect_reference_bytes({backward_of({1, 2, 1, 90, 70, 33}, Mask::causal), kind, 7, contract()}, {2});
}

// Forward's O is rounded to the type, but the reference continues with the unrounded O.
TEST_P(HalfGradients, AreTheSameAfterAForwardThatWasDoneBefore) {
    const AttentionCase half(backward_of({2, 4, 2, 70, 90, 20}, Mask::causal), CaseKind::uniform, 11, contract());
    const Problem forward = half.problem.of_operation(kForward);
    const std::vector<float> o(forward.floats_in(forward.output_rows()), 1.0f);
    std::vector<RowStatistics> statistics(static_cast<size_t>(forward.output_rows()));
    each_kernel([&](const cpu::Kernel& kernel) {
        std::vector<float> out(half.expected.size(), NAN);
        const size_t bytes = cpu::plan_of(kernel, half.problem, 2).scratch_bytes;
        const cpu::AlignedFloats scratch = cpu::allocate_aligned(bytes / sizeof(float));
        cpu::Launch launch = cpu::launch_of(half.problem, half.qkv.data(), out.data(), scratch.get(), 2);
        launch.statistics = statistics.data();
        launch.forward_out = tensor_at(forward, kForward.outputs, 0, o.data(), size_t{20});
        kernel.launch(launch);
        EXPECT_TRUE(same_bytes(half.expected, out)) << kernel.name;
    });
}

// dO too; and Q, K and V as in forward.
TEST_P(HalfGradients, AreNotOfNumbersThatTheTypeLacks) {
    const Problem problem = backward_of({1, 1, 1, 3, 3, 2});
    const float limit = overflow_of(element());
    // The refusal of a case with this number in dO.
    const auto failure = [&](float number) {
        std::vector<float> data(problem.floats_in(problem.input_rows()));
        data[18 + 3] = number;
        DomainCheck check("a.in", problem, contract().domain);
        return failure_of([&] { check.check(0, problem.input_rows(), data.data()); }).message;
    };
    EXPECT_EQ(failure(limit).find("a.in: batch 0, dO, row 1, column 1: "), 0u) << failure(limit);
    EXPECT_NE(failure(limit).find(" is infinite as " + std::string(name_of(element()))), std::string::npos);
    EXPECT_EQ(failure(element() == Element::bf16 ? 0x1p120f : std::nextafter(limit, 0.0f)), "");
}

// The contract refuses them, whatever the file's elements are: as bytes of float32 they would be infinite as well.
TEST_P(HalfGradients, AreRefusedWhereTheyAreInfinite) {
    Problem problem = backward_of({1, 1, 1, 2, 1, 1});
    const auto failure = [&](const Contract& under, float largest) {
        const float out[4] = {1, 0, -rounded_to(element(), largest), 2};
        float stored[4];
        narrow(problem.element, out, 4, stored);
        return failure_of([&] { refuse_infinite(under, problem, "a.in", stored, 4); });
    };
    const std::string beyond = "a.in: its outputs go beyond " + std::string(name_of(element())) + "; need ";
    const Failure by_contract{ExitCode::bad_data, beyond + "another contract, or smaller numbers"};
    const Failure by_file{ExitCode::bad_data, beyond + "elements of float32, or smaller numbers"};
    for (const Element of_file : {Element::float32, element()}) {
        problem.element = of_file;
        EXPECT_TRUE(outputs_may_overflow(contract(), problem));
        EXPECT_EQ(failure(contract(), HUGE_VALF), by_contract);
        EXPECT_EQ(failure(contract(), overflow_of(element())), by_contract);
        EXPECT_EQ(failure(contract(), NAN), by_contract);
        EXPECT_EQ(failure(contract(), std::nextafter(overflow_of(element()), 0.0f)), Failure{});
    }
    EXPECT_EQ(failure(kF32, overflow_of(element())), by_file);
    problem.element = Element::float32;
    EXPECT_FALSE(outputs_may_overflow(kF32, problem));
    problem.operation = &kForward;
    EXPECT_FALSE(outputs_may_overflow(contract(), problem)) << "O is no larger than V";
}

INSTANTIATE_TEST_SUITE_P(Types, HalfGradients, testing::Values(&kBf16, &kFp16),
                         [](const auto& instance) { return std::string(instance.param->name); });

} // namespace
} // namespace hw4
