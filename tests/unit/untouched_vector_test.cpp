// On both sides of the size from which its memory begins at the boundaries of large pages.
#include "src/base/untouched_vector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace hw4 {
namespace {

constexpr size_t kLargePage = size_t{2} << 20; // bytes
constexpr size_t kAtBoundary = kLargePage / sizeof(uint32_t);
constexpr size_t kCounts[] = {1, kAtBoundary - 1, kAtBoundary, kAtBoundary + 1, 3 * kAtBoundary - 1, 3 * kAtBoundary};

void fill(UntouchedVector<uint32_t>& numbers, uint32_t first) { std::iota(numbers.begin(), numbers.end(), first); }

// The number of those from `first` on that are not as fill() has left them.
size_t wrong(const UntouchedVector<uint32_t>& numbers, size_t count, uint32_t first) {
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) wrong += numbers[i] != first + static_cast<uint32_t>(i);
    return wrong;
}

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
