// The limit of time that main.cpp sets to each test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

TEST(Watchdog, WaitsForEveryTest) {
    const unsigned left = ::alarm(0);
    if (left == 0) GTEST_SKIP() << "HW4_TEST_SECONDS is 0";
    ::alarm(left);
}

// In a child, which would be a test that does not end.
TEST(Watchdog, NamesTheTestAndEndsTheProgram) {
    const test::TemporaryFolder folder;
    const std::string said = folder / "said";
    test::write_file(said, "");
    const pid_t child = ::fork();
    if (child == 0) {
        const int file = ::open(said.c_str(), O_WRONLY | O_CLOEXEC);
        if (file < 0 || ::dup2(file, STDOUT_FILENO) < 0) ::_exit(1);
        ::kill(::getpid(), SIGALRM);
        ::_exit(2);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
    EXPECT_EQ(test::read_file(said),
              "\nWatchdog.NamesTheTestAndEndsTheProgram does not end; HW4_TEST_SECONDS limits a test\n");
}

} // namespace
} // namespace hw4
