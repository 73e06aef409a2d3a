#include "src/base/float_bits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hw4 {
namespace {

TEST(NarrowFloats, Fp16) {
    EXPECT_EQ(rounded_to_fp16(0.01f), 0x1.47cp-7f);
    EXPECT_EQ(rounded_to_fp16(2049.0f), 2048.0f); // to even
    EXPECT_EQ(rounded_to_fp16(2051.0f), 2052.0f);
    EXPECT_EQ(rounded_to_fp16(65519.0f), 65504.0f);
    EXPECT_EQ(rounded_to_fp16(-65520.0f), -HUGE_VALF);
    EXPECT_EQ(rounded_to_fp16(0x1.8p-24f), 0x1p-23f); // denormals, to even
    EXPECT_EQ(rounded_to_fp16(0x1p-25f), 0.0f);
    EXPECT_EQ(bits_of(rounded_to_fp16(-0.0f)), bits_of(-0.0f));
    EXPECT_TRUE(std::isnan(rounded_to_fp16(NAN)));
}

TEST(NarrowFloats, Bf16) {
    EXPECT_EQ(rounded_to_bf16(0.01f), 0x1.48p-7f);
    EXPECT_EQ(rounded_to_bf16(257.0f), 256.0f); // to even
    EXPECT_EQ(rounded_to_bf16(259.0f), 260.0f);
    EXPECT_EQ(rounded_to_bf16(0x1.ffp127f), HUGE_VALF);
    EXPECT_EQ(rounded_to_bf16(-0x1p-149f), -0.0f);
    EXPECT_TRUE(std::isnan(rounded_to_bf16(NAN)));
}

} // namespace
} // namespace hw4
