#include "src/gpu/device/connections.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace hw4::gpu {
namespace {

using connections::kCompute;
using connections::kCopy;

// Takes a variable out of the environment and puts it back.
class Unset {
public:
    explicit Unset(const char* name) : name_(name) {
        if (const char* value = std::getenv(name)) before_ = value;
        ::unsetenv(name);
    }
    ~Unset() {
        if (before_)
            ::setenv(name_, before_->c_str(), 1);
        else
            ::unsetenv(name_);
    }
    Unset(const Unset&) = delete;
    Unset& operator=(const Unset&) = delete;

private:
    const char* name_;
    std::optional<std::string> before_;
};

class Connections : public testing::Test {
    const Unset compute_{kCompute};
    const Unset copy_{kCopy};
};

TEST_F(Connections, FewWhereNobodyAskedForMore) {
    ask_for_few_connections();
    EXPECT_STREQ(std::getenv(kCompute), "2");
    EXPECT_STREQ(std::getenv(kCopy), "1");
}

TEST_F(Connections, TheUsersNumberIsForCopiesToo) {
    ::setenv(kCompute, "8", 1);
    ask_for_few_connections();
    EXPECT_STREQ(std::getenv(kCompute), "8");
    EXPECT_EQ(std::getenv(kCopy), nullptr);
}

TEST_F(Connections, TheUsersNumberForCopiesStays) {
    ::setenv(kCopy, "3", 1);
    ask_for_few_connections();
    EXPECT_STREQ(std::getenv(kCompute), "2");
    EXPECT_STREQ(std::getenv(kCopy), "3");
}

} // namespace
} // namespace hw4::gpu
