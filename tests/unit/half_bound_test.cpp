// The bounds of the GPU's kernels of half precision hold for the contract's reference, and for little else.
#include "tests/support/half_bound.h"

#include <gtest/gtest.h>

#include "tests/support/attention_case.h"
#include "tests/support/backward_problem.h"
#include "tests/support/half_gradients.h"

namespace hw4 {
namespace {

class HalfBound : public testing::TestWithParam<const Contract*> {
protected:
    static Element element() { return GetParam()->element; }
};

// An output of the type that is off by a few of its units, one that is not of the type, a NaN, another row's.
TEST_P(HalfBound, DoesNotHoldForAWrongOutput) {
    const AttentionCase test({1, 60, 64}, CaseKind::uniform, 3, *GetParam());
    const HalfRows rows(test.problem, element(), test.qkv);
    EXPECT_TRUE(rows.hold(test.expected));
    const double unit = element() == Element::bf16 ? 0x1p-8 : 0x1p-11;
    for (const float wrong : {rounded_to(element(), test.expected[100] + static_cast<float>(8 * unit)),
                              test.expected[100] * 1.00001f, NAN, test.expected[100 + 64]}) {
        std::vector<float> out = test.expected;
        out[100] = wrong;
        EXPECT_FALSE(rows.hold(out)) << wrong;
    }
}

// Numbers of the other sign, zeros, or what the gradients are without the mask.
TEST_P(HalfBound, DoesNotHoldForWrongGradients) {
    const BackwardSizes sizes{1, 2, 1, 50, 60, 64};
    const AttentionCase& test = reference_case(backward_of(sizes, Mask::causal), CaseKind::uniform, 5, *GetParam());
    const HalfGradients bound(test.problem, element(), test.qkv);
    EXPECT_TRUE(bound.hold(test.expected));
    for (const size_t first : {size_t{0}, size_t{2} * 50 * 64, size_t{2} * 50 * 64 + 60 * 64}) // dQ, dK, dV
        for (const float factor : {-1.0f, 0.0f}) {
            std::vector<float> wrong = test.expected;
            for (size_t i = first; i < first + 64; ++i) wrong[i] *= factor;
            EXPECT_FALSE(bound.hold(wrong)) << first << " times " << factor;
        }
    EXPECT_FALSE(bound.hold(reference_case(backward_of(sizes), CaseKind::uniform, 5, *GetParam()).expected));
    std::vector<float> between = test.expected;
    between[0] += between[0] * 0x1p-13f; // no number of the type
    EXPECT_FALSE(bound.hold(between));
}

INSTANTIATE_TEST_SUITE_P(Types, HalfBound, testing::Values(&kBf16, &kFp16),
                         [](const auto& instance) { return std::string(instance.param->name); });

} // namespace
} // namespace hw4
