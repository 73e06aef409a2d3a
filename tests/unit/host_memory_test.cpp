#include "src/base/host_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace hw4 {
namespace {

TEST(HostPeak, StaysWhenMemoryIsGivenBack) {
    constexpr size_t kBytes = size_t{256} << 20; // this much returns to the system
    { const std::vector<char> used(kBytes, 'x'); }
    EXPECT_GT(host_peak_bytes(), kBytes);
}

} // namespace
} // namespace hw4
