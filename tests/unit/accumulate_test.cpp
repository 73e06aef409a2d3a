#include "src/bench/accumulate.h"

#include <gtest/gtest.h>

namespace hw4::bench {
namespace {

float sum_by(const Addends& addends, Element term, Element sum, int chain) {
    const std::vector<float> sums = cpu_sums(addends);
    for (size_t i = 0; i < sums.size(); ++i) {
        const Accumulation& way = kAccumulations[i];
        if (way.term == term && way.sum == sum && way.chain == chain) return sums[i];
    }
    ADD_FAILURE();
    return 0;
}

// As PyTorch's own additions give them for 1000 times 0.01.
TEST(Accumulate, GivesTheSumsOfTheStudy) {
    const Addends usual;
    EXPECT_FLOAT_EQ(sum_by(usual, Element::float32, Element::float32, 0), 10.000134f);
    EXPECT_EQ(sum_by(usual, Element::fp16, Element::fp16, 0), 9.953125f);
    EXPECT_FLOAT_EQ(sum_by(usual, Element::fp16, Element::float32, 0), 10.002136f);
    EXPECT_EQ(sum_by(usual, Element::bf16, Element::bf16, 0), 4.0f); // where a term is half of the last digit
}

TEST(Accumulate, ChainsLoseLess) {
    const Addends usual;
    for (const Element element : kElements) {
        const double exact = 1000 * double{sum_by({1, 0.01f}, element, element, 0)};
        const double plain = std::abs(double{sum_by(usual, element, element, 0)} - exact);
        for (const int chain : {32, 64})
            EXPECT_LT(std::abs(double{sum_by(usual, element, element, chain)} - exact), plain);
    }
}

TEST(Accumulate, CountsEveryTermOfAChainThatIsNotWhole) {
    for (const int64_t count : {1, 31, 32, 33, 63, 64, 65, 129})
        for (const float sum : cpu_sums({count, 1})) EXPECT_EQ(sum, static_cast<float>(count));
}

} // namespace
} // namespace hw4::bench
