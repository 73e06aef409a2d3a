// Tests both sides of the size from which the memory is aligned to large pages.
#include "src/base/untouched_vector.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace hw4 {
namespace {

constexpr size_t kLargePage = size_t{2} << 20; // bytes
constexpr size_t kAtBoundary = kLargePage / sizeof(uint32_t);
constexpr size_t kCounts[] = {1, kAtBoundary - 1, kAtBoundary, kAtBoundary + 1, 3 * kAtBoundary - 1, 3 * kAtBoundary};

TEST(UntouchedVector, BeginsAtALargePageWhereItFillsOne) {
    for (const size_t count : kCounts) {
        const UntouchedVector<uint32_t> numbers(count);
        if (count >= kAtBoundary) {
            EXPECT_EQ(reinterpret_cast<uintptr_t>(numbers.data()) % kLargePage, 0u) << count;
        }
    }
}

} // namespace
} // namespace hw4
