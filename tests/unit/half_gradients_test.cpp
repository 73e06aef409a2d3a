// The bound of the GPU's backward kernels of half precision holds for the contract's reference, and for little else.
#include "tests/support/half_gradients.h"

#include <gtest/gtest.h>

#include "tests/support/attention_case.h"
#include "tests/support/backward_problem.h"

namespace hw4 {
namespace {

class HalfGradientsBound : public testing::TestWithParam<const Contract*> {
protected:
    Element element() const { return GetParam()->element; }
};

TEST_P(HalfGradientsBound, HoldsForTheReference) {
    for (const Mask mask : kEveryMask)
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::normal, CaseKind::equal})
            for (const BackwardSizes& sizes : {BackwardSizes{2, 4, 2, 40, 30, 33}, BackwardSizes{1, 1, 1, 70, 90, 64},
                                               BackwardSizes{1, 1, 1, 1, 1, 1}}) {
                const AttentionCase& test = reference_case(backward_of(sizes, mask), kind, 5, *GetParam());
                EXPECT_TRUE(HalfGradients(test.problem, element(), test.qkv).hold(test.expected)) << test.name;
            }
}

// Numbers of the other gradient, of the other sign, or of a key that is not seen.
TEST_P(HalfGradientsBound, HoldsForNothingElse) {
    const AttentionCase& test =
        reference_case(backward_of({1, 2, 1, 50, 60, 64}, Mask::causal), CaseKind::uniform, 5, *GetParam());
    const HalfGradients bound(test.problem, element(), test.qkv);
    const auto first_of = {size_t{0}, size_t{2} * 50 * 64, size_t{2} * 50 * 64 + 60 * 64};
    for (const size_t first : first_of) {
        std::vector<float> turned = test.expected;
        for (size_t i = first; i < first + 64; ++i) turned[i] = -turned[i];
        EXPECT_FALSE(bound.hold(turned)) << first;
        std::vector<float> none = test.expected;
        for (size_t i = first; i < first + 64; ++i) none[i] = 0;
        EXPECT_FALSE(bound.hold(none)) << first;
    }
    const AttentionCase& unmasked =
        reference_case(backward_of({1, 2, 1, 50, 60, 64}), CaseKind::uniform, 5, *GetParam());
    EXPECT_FALSE(bound.hold(unmasked.expected));
    std::vector<float> between = test.expected;
    between[0] += between[0] * 0x1p-13f; // no number of the type
    EXPECT_FALSE(bound.hold(between));
}

INSTANTIATE_TEST_SUITE_P(Each, HalfGradientsBound, testing::Values(&kBf16, &kFp16),
                         [](const auto& instance) { return std::string(instance.param->name); });

} // namespace
} // namespace hw4
