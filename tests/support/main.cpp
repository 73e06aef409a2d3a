// Runs the tests, each within a time limit: a test that hangs is named and ends the program. HW4_TEST_SECONDS sets the
// limit, 0 for none. SIGALRM from outside (tests/run) has the same effect at once.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "src/base/numbers.h"

namespace {

// A signal handler can only reach globals.
std::array<char, 512> hanging{}; // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void hang(const char* name) {
    std::snprintf(hanging.data(), hanging.size(), "\n%s does not end; HW4_TEST_SECONDS limits a test\n", name);
}

// Writes to standard output, as GoogleTest does. A watchdog thread would not do better: tests fork.
void name_and_end(int) {
    if (::write(STDOUT_FILENO, hanging.data(), std::char_traits<char>::length(hanging.data())) < 0) std::_Exit(1);
    std::abort();
}

class Watchdog : public testing::EmptyTestEventListener {
public:
    explicit Watchdog(unsigned seconds) : seconds_(seconds) { hang("the program"); }

private:
    void OnTestStart(const testing::TestInfo& test) override {
        hang((std::string(test.test_suite_name()) + "." + test.name()).c_str());
        ::alarm(seconds_);
    }
    void OnTestEnd(const testing::TestInfo&) override {
        ::alarm(0);
        hang("the program");
    }

    unsigned seconds_;
};

} // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const char* text = std::getenv("HW4_TEST_SECONDS"); // no other threads exist yet
    const auto seconds = hw4::whole_number(text != nullptr ? text : "300", 0, 1'000'000);
    if (!seconds) {
        std::fprintf(stderr, "HW4_TEST_SECONDS is '%s', need a number up to 1000000\n", text);
        return 64;
    }
    if (std::signal(SIGALRM, name_and_end) == SIG_ERR) return 71;
    testing::UnitTest::GetInstance()->listeners().Append(
        new Watchdog(static_cast<unsigned>(*seconds))); // NOLINT: GoogleTest owns it from here on
    return RUN_ALL_TESTS();
}
