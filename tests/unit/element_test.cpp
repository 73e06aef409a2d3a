#include "src/problem/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace hw4 {
namespace {

float value_of(Element element, uint16_t bits) {
    return element == Element::bf16 ? bf16_value(bits) : fp16_value(bits);
}

class NarrowElement : public testing::TestWithParam<Element> {
protected:
    static uint16_t bits(float x) { return static_cast<uint16_t>(bits_of(GetParam(), x)); }
    static float value(uint32_t of) { return value_of(GetParam(), static_cast<uint16_t>(of)); }
    static uint32_t infinity() { return GetParam() == Element::bf16 ? 0x7f80u : 0x7c00u; }
};

TEST_P(NarrowElement, KeepsEveryValue) {
    constexpr uint32_t kSign = 0x8000u;
    for (uint32_t of = 0; of <= 0xffffu; ++of) {
        const bool nan = (of & ~kSign) > infinity();
        ASSERT_EQ(std::isnan(value(of)), nan) << of;
        ASSERT_EQ(std::signbit(value(of)), (of & kSign) != 0) << of;
        if (nan)
            ASSERT_TRUE(std::isnan(value(bits(value(of))))) << of;
        else
            ASSERT_EQ(bits(value(of)), of);
    }
}

// From the smallest denormal on: a number between two neighbours rounds to the nearer, halfway to the even one.
TEST_P(NarrowElement, RoundsToNearestEven) {
    for (uint32_t of = 0; of + 1 < infinity(); ++of) {
        ASSERT_LT(value(of), value(of + 1));
        const float half_way = value(of) + (value(of + 1) - value(of)) / 2;
        ASSERT_EQ(bits(half_way), of % 2 == 0 ? of : of + 1) << of;
        ASSERT_EQ(bits(-half_way), 0x8000u | bits(half_way)) << of;
        ASSERT_EQ(bits(std::nextafter(half_way, 0.0f)), of) << of;
        ASSERT_EQ(bits(std::nextafter(half_way, HUGE_VALF)), of + 1) << of;
    }
}

TEST_P(NarrowElement, IsInfiniteFromItsOverflowOn) {
    const float overflow = overflow_of(GetParam());
    EXPECT_EQ(bits(overflow), infinity());
    EXPECT_EQ(bits(-overflow), 0x8000u | infinity());
    EXPECT_EQ(bits(HUGE_VALF), infinity());
    EXPECT_EQ(bits(std::nextafter(overflow, 0.0f)), infinity() - 1) << "the largest there is";
}

// Converts any number of elements within the same memory.
TEST_P(NarrowElement, IsWidenedAndNarrowedInPlace) {
    for (const size_t count : {0, 1, 2, 255, 256, 257, 1000}) {
        std::vector<float> values(count);
        for (size_t i = 0; i < count; ++i) values[i] = value(static_cast<uint32_t>(i * 31));
        std::vector<uint16_t> stored(count);
        for (size_t i = 0; i < count; ++i) stored[i] = static_cast<uint16_t>(i * 31);
        std::vector<float> room = values;
        narrow(GetParam(), room.data(), count, room.data());
        EXPECT_TRUE(count == 0 || std::memcmp(room.data(), stored.data(), count * 2) == 0) << count;
        room.assign(count, NAN);
        if (count > 0) std::memcpy(reinterpret_cast<char*>(room.data()) + count * 2, stored.data(), count * 2);
        widen_at_end(GetParam(), room.data(), count);
        EXPECT_EQ(room, values) << count;
        room.assign(count, NAN);
        widen(GetParam(), stored.data(), count, room.data());
        EXPECT_EQ(room, values) << count << ", elsewhere";
    }
}

// The number may be at any place among others.
TEST_P(NarrowElement, IsFiniteOrNot) {
    const auto none = static_cast<uint16_t>(infinity() + 1);
    for (const size_t count : {1, 2, 255, 256, 257, 1000}) {
        std::vector<uint16_t> stored(count, static_cast<uint16_t>(infinity() - 1));
        EXPECT_TRUE(are_finite(GetParam(), stored.data(), count)) << count;
        for (const auto bits : {static_cast<uint16_t>(infinity()), static_cast<uint16_t>(0x8000u | infinity()), none})
            for (const size_t place : {size_t{0}, count / 2, count - 1}) {
                std::vector<uint16_t> with = stored;
                with[place] = bits;
                EXPECT_FALSE(are_finite(GetParam(), with.data(), count)) << count << ", " << place;
            }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowElement, testing::Values(Element::bf16, Element::fp16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

} // namespace
} // namespace hw4
