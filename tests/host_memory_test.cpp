#include "../src/host_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace hw4 {
namespace {

TEST(HostPeak, IsAtLeastWhatIsInUse) {
    const size_t before = host_peak_bytes();
    EXPECT_GT(before, size_t{1} << 20);
    const std::vector<char> used(size_t{64} << 20, 'x');
    EXPECT_GT(host_peak_bytes(), used.size());
}

} // namespace
} // namespace hw4
