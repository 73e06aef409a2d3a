#include "../src/gpu/connections.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace hw4::gpu {
namespace {

constexpr const char* kName = "CUDA_DEVICE_MAX_CONNECTIONS";

// The variable as it was before a test.
class Connections : public testing::Test {
protected:
    Connections() {
        if (const char* value = std::getenv(kName)) before_ = value;
        ::unsetenv(kName);
    }
    ~Connections() override {
        if (before_)
            ::setenv(kName, before_->c_str(), 1);
        else
            ::unsetenv(kName);
    }

private:
    std::optional<std::string> before_;
};

TEST_F(Connections, OneWhereNobodyAskedForMore) {
    ask_for_one_connection();
    EXPECT_STREQ(std::getenv(kName), "1");
}

TEST_F(Connections, TheUsersOwnSettingStays) {
    ::setenv(kName, "8", 1);
    ask_for_one_connection();
    EXPECT_STREQ(std::getenv(kName), "8");
}

} // namespace
} // namespace hw4::gpu
