#include "src/io/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

namespace fs = std::filesystem;
using test::failure_of;
using test::read_file;
using test::write_file;
using Names = std::vector<std::string>;

class Temporary : public ::testing::Test {
protected:
    Names leftovers() { return TemporaryFile(target_, target_, 0666, interrupts_).leftovers(); }

    InterruptGuard interrupts_;
    test::TemporaryFolder folder_;
    std::string target_ = folder_ / "a.out";
};

TEST_F(Temporary, GoesWithItsOwner) {
    {
        const TemporaryFile file(target_, target_, 0666, interrupts_);
        EXPECT_EQ(folder_.names(), Names{"a.out.hw4-" + std::to_string(::getpid()) + "-0.tmp"});
    }
    EXPECT_EQ(folder_.names(), Names{});
}

TEST_F(Temporary, StaysUnderItsNewName) {
    {
        TemporaryFile file(target_, target_, 0666, interrupts_);
        ASSERT_EQ(::write(file.fd(), "text", 4), 4);
        EXPECT_EQ(file.close(), 0);
        EXPECT_TRUE(file.rename_to_target());
    }
    EXPECT_EQ(read_file(target_), "text");
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST_F(Temporary, RemovesWhatKilledProcessesHaveLeft) {
    const Names left = {target_ + ".hw4-1-0.tmp", target_ + ".hw4-99999999-12.tmp"};
    for (const std::string& path : left) write_file(path, "half of");
    Names removed = leftovers();
    std::sort(removed.begin(), removed.end());
    EXPECT_EQ(removed, left);
    EXPECT_EQ(folder_.names(), Names{});
}

TEST_F(Temporary, LeavesWhatIsInUse) {
    const std::string used = target_ + ".hw4-" + std::to_string(::getpid()) + "-0.tmp";
    write_file(used, "not ours");
    {
        const FileDescriptor owner(::open(used.c_str(), O_WRONLY));
        ASSERT_EQ(::flock(owner.get(), LOCK_EX | LOCK_NB), 0);
        EXPECT_EQ(leftovers(), Names{});
        EXPECT_EQ(read_file(used), "not ours");
    }
    EXPECT_EQ(leftovers(), Names{used}) << "the lock goes with who had it";
}

TEST_F(Temporary, IsInUseUntilItIsRenamed) {
    TemporaryFile file(target_, target_, 0666, interrupts_);
    EXPECT_EQ(leftovers(), Names{});
    ASSERT_EQ(file.close(), 0);
    EXPECT_EQ(leftovers(), Names{});
    EXPECT_TRUE(file.rename_to_target());
}

// Its input, say, which has no lock.
TEST_F(Temporary, LeavesWhatTheRunIsAbout) {
    const std::string input = target_ + ".hw4-12-0.tmp";
    const std::string other_name = target_ + ".hw4-12-1.tmp";
    const std::string left = target_ + ".hw4-12-2.tmp";
    for (const std::string& path : {input, left}) write_file(path, "text");
    fs::create_hard_link(input, other_name);
    struct stat status {};
    ASSERT_EQ(::stat(input.c_str(), &status), 0);
    EXPECT_EQ(TemporaryFile(target_, target_, 0666, interrupts_, {identity_of(status)}).leftovers(), Names{left});
    EXPECT_EQ(folder_.names(), (Names{"a.out.hw4-12-0.tmp", "a.out.hw4-12-1.tmp"}));
}

// Neither an input of that name nor the file of a stranger, who would still own the result.
TEST_F(Temporary, IsNeverAFileThatIsThere) {
    const std::string there = target_ + ".hw4-" + std::to_string(::getpid()) + "-0.tmp";
    write_file(there, "not ours");
    const auto write_and_rename = [&](const std::vector<FileIdentity>& kept) {
        TemporaryFile file(target_, target_, 0666, interrupts_, kept);
        EXPECT_EQ(::write(file.fd(), "text", 4), 4);
        EXPECT_TRUE(file.rename_to_target());
    };
    struct stat status {};
    ASSERT_EQ(::stat(there.c_str(), &status), 0);
    write_and_rename({identity_of(status)});
    EXPECT_EQ(read_file(there), "not ours");
    EXPECT_EQ(read_file(target_), "text");
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of another user";
    ASSERT_EQ(::chown(there.c_str(), 65534, 65534), 0);
    write_and_rename({});
    EXPECT_EQ(read_file(there), "not ours");
    EXPECT_EQ(read_file(target_), "text");
}

TEST_F(Temporary, LeavesNamesThatOnlyLookLikeIt) {
    const Names strangers = {"a.out.hw4-.tmp",        "a.out.hw4-1-.tmp",        "a.out.hw4--1.tmp",
                             "a.out.hw4-1-0.tmp.bak", "a.out.hw4-1-0.temp",      "a.out.hw4-1.tmp",
                             "a.out.hw4-x-0.tmp",     "a.out.hw4-1-x.tmp",       "b.a.out.hw4-1-0.tmp",
                             "a.outhw4-1-0.tmp",      "a.out.hw4-1-2.tmp-3.tmp", "a.out.hw4-1-0"};
    for (const std::string& name : strangers) write_file(folder_ / name, "not ours");
    EXPECT_EQ(leftovers(), Names{});
    EXPECT_EQ(folder_.names().size(), strangers.size());
}

TEST_F(Temporary, LeavesWhatIsNoPlainFile) {
    write_file(folder_ / "precious", "not ours");
    fs::create_symlink("precious", target_ + ".hw4-1-0.tmp");
    fs::create_directory(target_ + ".hw4-2-0.tmp");
    ASSERT_EQ(::mkfifo((target_ + ".hw4-3-0.tmp").c_str(), 0600), 0);
    EXPECT_EQ(leftovers(), Names{});
    EXPECT_EQ(folder_.names().size(), 4u);
    EXPECT_EQ(read_file(folder_ / "precious"), "not ours");
}

TEST_F(Temporary, LeavesOtherUsersFiles) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of another user";
    const std::string path = target_ + ".hw4-1-0.tmp";
    write_file(path, "not ours");
    ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    EXPECT_EQ(leftovers(), Names{});
    EXPECT_TRUE(fs::exists(path));
}

// In a child process that is not root: whether what one under this umask has left is removed.
void remove_left_under(mode_t umask, const std::string& target) {
    test::become_ordinary_user();
    ::umask(umask);
    const std::string left = target + ".hw4-1-0.tmp";
    const FileDescriptor made(::open(left.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666));
    InterruptGuard interrupts;
    const Names removed = TemporaryFile(target, target, 0666, interrupts).leftovers();
    ::_exit(made.valid() && removed == Names{left} ? 0 : 1);
}

TEST(TemporaryDeath, RemovesWhatItsUserMayOnlyReadOrOnlyWrite) {
    if (!test::can_be_ordinary_user()) GTEST_SKIP() << "root here cannot become another user";
    const test::TemporaryFolder folder;
    ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
    for (const mode_t umask : {0222u, 0444u}) {
        EXPECT_EXIT(remove_left_under(umask, folder / "a.out"), ::testing::ExitedWithCode(0), "");
        EXPECT_EQ(folder.names(), Names{}) << std::oct << umask;
    }
}

// In a child process that is not root.
void make_one(const std::string& target) {
    test::become_ordinary_user();
    InterruptGuard interrupts;
    ::_exit(failure_of([&] { TemporaryFile(target, target, 0666, interrupts).rename_to_target(); }).code == ExitCode::ok
                ? 0
                : 1);
}

TEST(TemporaryDeath, NeedsNoRightToListTheFolder) {
    if (!test::can_be_ordinary_user()) GTEST_SKIP() << "root here cannot become another user";
    const test::TemporaryFolder folder;
    ASSERT_EQ(::chmod(folder.path().c_str(), 0333), 0);
    EXPECT_EXIT(make_one(folder / "a.out"), ::testing::ExitedWithCode(0), "");
    ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
    EXPECT_EQ(folder.names(), Names{"a.out"});
}

// In a child process: the target again and again, each time with its own text. 0 if no file ever got lost.
int write_often(const std::string& target, int times) {
    InterruptGuard interrupts;
    const std::string text = std::to_string(::getpid());
    for (int i = 0; i < times; ++i) {
        TemporaryFile file(target, target, 0666, interrupts);
        if (::write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return 1;
        if (file.close() != 0 || !file.rename_to_target()) return 2;
    }
    return 0;
}

TEST_F(Temporary, ManyProcessesAtOnceNeverTakeEachOthers) {
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(write_often(target_, 100));
        ASSERT_GT(child, 0);
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = -1;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0) << "exit " << WEXITSTATUS(status);
    }
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST_F(Temporary, SaysWhyThereIsNone) {
    const std::string target = folder_ / "none/a.out";
    EXPECT_EQ(failure_of([&] { TemporaryFile(target, "shown", 0666, interrupts_); }),
              (test::Failure{ExitCode::cannot_create,
                             "shown: cannot create a file in " + (folder_ / "none") + ": No such file or directory"}));
}

} // namespace
} // namespace hw4
