#include "src/io/growing_file.h"

#include <sys/resource.h>

#include <csignal>

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

namespace fs = std::filesystem;
using test::Failure;
using test::failure_of;
using test::read_file;

ino_t inode_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_ino;
}

class Growing : public ::testing::Test {
protected:
    InterruptGuard interrupts_;
    test::TemporaryFolder folder_;
    std::string path_ = folder_ / "a.json";
};

TEST_F(Growing, IsCompleteAfterEachPart) {
    GrowingFile file(path_, "test", interrupts_);
    EXPECT_FALSE(fs::exists(path_));
    file.begin("[1", "]");
    EXPECT_EQ(read_file(path_), "[1]");
    file.add(", 2");
    EXPECT_EQ(read_file(path_), "[1, 2]");
    file.add("");
    file.add(", 3");
    file.finish();
    EXPECT_EQ(read_file(path_), "[1, 2, 3]");
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.json"});
}

// Or a sweep of thousands of rows would write gigabytes.
TEST_F(Growing, DoesNotWriteWhatIsThereOnceMore) {
    GrowingFile file(path_, "test", interrupts_);
    file.begin("", ".");
    const ino_t first = inode_of(path_);
    for (int i = 0; i < 2000; ++i) file.add("part of a text; ");
    EXPECT_EQ(inode_of(path_), first); // a new one would be another file, as the next test has it
    EXPECT_EQ(fs::file_size(path_), 2000 * 16 + 1);
}

TEST_F(Growing, ReplacesWhatIsNoLongerItsOwn) {
    GrowingFile file(path_, "test", interrupts_);
    file.begin("1", ".");
    fs::rename(path_, folder_ / "moved");
    file.add("2");
    EXPECT_EQ(read_file(path_), "12.");
    test::write_file(path_, "longer than it was");
    file.add("3");
    EXPECT_EQ(read_file(path_), "123.");
    fs::create_hard_link(path_, folder_ / "kept");
    file.add("4");
    EXPECT_EQ(read_file(path_), "1234.");
    EXPECT_EQ(read_file(folder_ / "kept"), "123.");
    EXPECT_EQ(read_file(folder_ / "moved"), "1.");
}

TEST_F(Growing, ReplacesAnOldFileOnlyWhenItBegins) {
    test::write_file(path_, "old");
    { GrowingFile file(path_, "test", interrupts_); }
    EXPECT_EQ(read_file(path_), "old");
}

TEST_F(Growing, WithoutANameIsNothing) {
    GrowingFile file("", "test", interrupts_);
    file.begin("1", ".");
    file.add("2");
    file.finish();
    EXPECT_TRUE(folder_.names().empty());
}

constexpr size_t kRoom = 5000; // more than a message takes on a standard error that is a file

// In a child process that may write files of so many bytes.
void add_too_much(const std::string& path) {
    std::signal(SIGXFSZ, SIG_IGN);
    InterruptGuard interrupts;
    GrowingFile file(path, "test", interrupts);
    file.begin(std::string(kRoom - 2, ' '), "]");
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = kRoom;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Failure failure = failure_of([&] { file.add(", 2, 3, 4"); });
    std::fputs(failure.message.c_str(), stderr);
    ::_exit(static_cast<int>(failure.code));
}

TEST(GrowingDeath, IsAsBeforeWhereThereIsNoRoomForMore) {
    const test::TemporaryFolder folder;
    EXPECT_EXIT(add_too_much(folder / "a.json"), ::testing::ExitedWithCode(74),
                "a.json: cannot write: File too large$");
    EXPECT_EQ(read_file(folder / "a.json"), std::string(kRoom - 2, ' ') + "]");
}

} // namespace
} // namespace hw4
