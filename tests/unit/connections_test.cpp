#include "src/gpu/device/connections.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace hw4::gpu {
namespace {

using connections::kCompute;
using connections::kCopy;

void set(const char* name, const char* value) {
    if (value != nullptr)
        ::setenv(name, value, 1);
    else
        ::unsetenv(name);
}

void expect_asked(const char* compute_before, const char* copy_before, const char* compute, const char* copy) {
    set(kCompute, compute_before);
    set(kCopy, copy_before);
    ask_for_few_connections();
    EXPECT_STREQ(std::getenv(kCompute), compute);
    EXPECT_STREQ(std::getenv(kCopy), copy);
}

TEST(Connections, AreFewUnlessTheUserAsksForMore) {
    expect_asked(nullptr, nullptr, "2", "1");
    expect_asked("8", nullptr, "8", nullptr);
    expect_asked(nullptr, "3", "2", "3");
    set(kCompute, nullptr);
    set(kCopy, nullptr);
}

} // namespace
} // namespace hw4::gpu
