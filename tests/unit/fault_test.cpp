#include "src/gpu/device/fault.h"

#include <gtest/gtest.h>

namespace hw4::gpu {
namespace {

TEST(CudaFault, IsACallAndMaybeAnError) {
    EXPECT_EQ(fault_of("7").call, 7);
    EXPECT_EQ(fault_of("7").error, 999);
    EXPECT_EQ(fault_of("12:2").call, 12);
    EXPECT_EQ(fault_of("12:2").error, 2);
}

TEST(CudaFault, AnythingElseIsNone) {
    for (const char* text : {"", "0", "-1", "x", "7x", "7:", ":2", "7:0", "7:x", "7:2:3", "7:9999999999"})
        EXPECT_EQ(fault_of(text).call, 0) << text;
}

} // namespace
} // namespace hw4::gpu
