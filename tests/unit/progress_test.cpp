#include "src/run/progress.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "src/base/file_descriptor.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

// Standard error goes to another descriptor for as long as this lives.
class StderrTo {
public:
    explicit StderrTo(int fd) : before_(::dup(STDERR_FILENO)) { ::dup2(fd, STDERR_FILENO); }
    ~StderrTo() {
        std::fflush(stderr);
        ::dup2(before_.get(), STDERR_FILENO);
    }
    StderrTo(const StderrTo&) = delete;
    StderrTo& operator=(const StderrTo&) = delete;

private:
    FileDescriptor before_;
};

constexpr std::chrono::milliseconds kSeldom(200); // a line is not written more often

std::string what_came(int fd) {
    char text[1024];
    const ssize_t got = ::read(fd, text, sizeof text);
    return got < 0 ? "" : std::string(text, static_cast<size_t>(got));
}

// Nothing is shown in the first second, so both halves share the wait.
TEST(Progress, OnlyOnATerminalAndOnlyInLongRuns) {
    const FileDescriptor terminal(::posix_openpt(O_RDWR | O_NOCTTY));
    if (!terminal.valid() || ::grantpt(terminal.get()) != 0 || ::unlockpt(terminal.get()) != 0)
        GTEST_SKIP() << "no pseudo terminal here";
    const FileDescriptor user_side(::open(::ptsname(terminal.get()), O_RDWR | O_NOCTTY));
    ASSERT_TRUE(user_side.valid());
    ASSERT_EQ(::fcntl(terminal.get(), F_SETFL, O_NONBLOCK), 0);
    const test::TemporaryFolder folder;
    const FileDescriptor file(::open((folder / "log").c_str(), O_WRONLY | O_CREAT, 0600));
    {
        const StderrTo to_file(file.get());
        Progress silent("batches", 8);
        const StderrTo to_terminal(user_side.get());
        const auto begin = std::chrono::steady_clock::now();
        Progress shown("batches", 8);
        shown.add(0.5);
        EXPECT_EQ(what_came(terminal.get()), "");
        std::this_thread::sleep_for(std::chrono::milliseconds(1010));
        silent.add(1);
        EXPECT_EQ(what_came(terminal.get()), "");
        shown.add(1.5);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        const std::string line = what_came(terminal.get());
        const std::string start = "\r\033[K25 %, 2 of 8 batches, ";
        ASSERT_EQ(line.rfind(start, 0), 0u) << line;
        char* end = nullptr;
        const double left = std::strtod(line.c_str() + start.size(), &end); // in whole seconds
        EXPECT_STREQ(end, " s left");
        EXPECT_GE(left, 3.0);
        EXPECT_LE(left, 3 * took.count() + 0.5);
        shown.add(1);
        EXPECT_TRUE(what_came(terminal.get()).empty() || std::chrono::steady_clock::now() - begin > took + kSeldom);
    }
    EXPECT_EQ(what_came(terminal.get()), "\r\033[K"); // the line does not stay behind
    EXPECT_EQ(test::read_file(folder / "log"), "");
}

} // namespace
} // namespace hw4
