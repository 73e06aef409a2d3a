#include "../src/output_file.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <thread>

#include "temporary_folder.h"

namespace hw4 {
namespace {

namespace fs = std::filesystem;
using test::Failure;
using test::failure_of;
using test::mode_of;
using test::read_file;
using test::write_file;
using Names = std::vector<std::string>;

class Output : public ::testing::Test {
protected:
    void put(const std::string& path, const std::string& text, bool sync = false) {
        OutputFile file(path, interrupts_);
        file.write(text.data(), text.size());
        file.commit(sync);
    }

    Failure open_failure(const std::string& path) {
        return failure_of([&] { OutputFile file(path, interrupts_); });
    }

    InterruptGuard interrupts_;
    test::TemporaryFolder folder_;
    std::string path_ = folder_ / "a.out";
};

TEST_F(Output, AppearsOnlyWhenComplete) {
    {
        OutputFile file(path_, interrupts_);
        file.write("one", 3);
        EXPECT_FALSE(fs::exists(path_));
        file.write("", 0);
        file.write(" two", 4);
        EXPECT_EQ(folder_.names().size(), 1u);
        file.commit(false);
        EXPECT_EQ(folder_.names(), Names{"a.out"});
    }
    EXPECT_EQ(folder_.names(), Names{"a.out"});
    EXPECT_EQ(read_file(path_), "one two");
}

TEST_F(Output, SyncGivesTheSameFile) {
    put(path_, "safe", true);
    EXPECT_EQ(folder_.names(), Names{"a.out"});
    EXPECT_EQ(read_file(path_), "safe");
}

TEST_F(Output, TakesItsPartsInAnyOrder) {
    {
        OutputFile file(path_, interrupts_);
        EXPECT_TRUE(file.random_access());
        file.reserve(7);
        file.write_at(4, "two", 3);
        file.write_at(0, "one ", 4);
        file.commit(false);
    }
    EXPECT_EQ(read_file(path_), "one two");
}

TEST_F(Output, DevicesTakeTheirPartsInOrder) {
    OutputFile file("/dev/null", interrupts_);
    EXPECT_FALSE(file.random_access());
    EXPECT_NO_THROW(file.reserve(1 << 20));
}

// In a child process that may write files of a page: how reserving more fails.
void reserve_too_much(const std::string& path) {
    rlimit limit;
    limit.rlim_cur = limit.rlim_max = 4096;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    InterruptGuard interrupts;
    Failure failure;
    {
        OutputFile file(path, interrupts);
        failure = failure_of([&] { file.reserve(4097); });
    }
    std::fputs(failure.message.c_str(), stderr);
    ::_exit(static_cast<int>(failure.code));
}

TEST(OutputDeath, SaysAtOnceThatThereIsNoRoom) {
    const test::TemporaryFolder folder;
    EXPECT_EXIT(reserve_too_much(folder / "a.out"), ::testing::ExitedWithCode(74),
                "a.out: cannot write: File too large$");
    EXPECT_EQ(folder.names(), Names{});
}

TEST_F(Output, ReplacesTheOldFileOnlyWhenComplete) {
    write_file(path_, "a longer old text");
    {
        OutputFile file(path_, interrupts_);
        file.write("new", 3);
        EXPECT_EQ(read_file(path_), "a longer old text");
        file.commit(false);
    }
    EXPECT_EQ(read_file(path_), "new");
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST_F(Output, WithoutCommitNothingHappened) {
    write_file(path_, "old");
    {
        OutputFile file(path_, interrupts_);
        file.write("new", 3);
    }
    EXPECT_EQ(read_file(path_), "old");
    EXPECT_EQ(folder_.names(), Names{"a.out"});
    { const OutputFile file(folder_ / "b.out", interrupts_); }
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST_F(Output, NamesWhatAKilledRunHasLeft) {
    const std::string left = path_ + ".hw4-1-0.tmp";
    write_file(left, "half of");
    {
        OutputFile file(path_, interrupts_);
        EXPECT_EQ(file.leftovers(), Names{left});
        file.commit(false);
    }
    EXPECT_EQ(folder_.names(), Names{"a.out"});
    EXPECT_EQ(OutputFile("/dev/null", interrupts_).leftovers(), Names{});
}

TEST_F(Output, TwoOfOneName) {
    {
        OutputFile first(path_, interrupts_);
        OutputFile second(path_, interrupts_);
        EXPECT_EQ(folder_.names().size(), 2u);
        first.write("first", 5);
        second.write("second", 6);
        first.commit(false);
        second.commit(false);
    }
    EXPECT_EQ(read_file(path_), "second");
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST_F(Output, NewFileFollowsTheUmask) {
    const mode_t before = ::umask(027);
    put(path_, "new");
    ::umask(before);
    EXPECT_EQ(mode_of(path_), 0640u);
}

TEST_F(Output, KeepsTheModeOfTheOldFile) {
    const mode_t before = ::umask(077);
    for (const mode_t mode : {0600u, 0664u, 0755u}) {
        write_file(path_, "old");
        ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
        put(path_, "new");
        EXPECT_EQ(mode_of(path_), mode);
    }
    ::umask(before);
}

TEST_F(Output, WritesBehindALink) {
    fs::create_directory(folder_ / "deep");
    write_file(folder_ / "deep/real", "old");
    fs::create_symlink("deep/real", folder_ / "near");
    fs::create_symlink("near", path_);
    put(path_, "new");
    EXPECT_TRUE(fs::is_symlink(path_));
    EXPECT_TRUE(fs::is_symlink(folder_ / "near"));
    EXPECT_EQ(read_file(folder_ / "deep/real"), "new");
}

TEST_F(Output, WritesBehindALinkToNothingYet) {
    fs::create_directory(folder_ / "deep");
    fs::create_symlink("deep/real", path_);
    put(path_, "new");
    EXPECT_TRUE(fs::is_symlink(path_));
    EXPECT_EQ(read_file(folder_ / "deep/real"), "new");
}

TEST_F(Output, RefusesALoopOfLinks) {
    fs::create_symlink("b.out", path_);
    fs::create_symlink("a.out", folder_ / "b.out");
    EXPECT_EQ(open_failure(path_).code, ExitCode::cannot_create);
    EXPECT_EQ(folder_.names(), (Names{"a.out", "b.out"}));
}

TEST_F(Output, RefusesADirectory) {
    EXPECT_EQ(open_failure(folder_.path()),
              (Failure{ExitCode::cannot_create, folder_.path() + ": is a directory, need a file name"}));
    EXPECT_EQ(folder_.names(), Names{});
}

TEST_F(Output, RefusesAMissingDirectoryAtOnce) {
    const std::string path = folder_ / "none/a.out";
    EXPECT_EQ(open_failure(path),
              (Failure{ExitCode::cannot_create,
                       path + ": cannot create a file in " + (folder_ / "none") + ": No such file or directory"}));
}

TEST_F(Output, RefusesAnEmptyNameAtOnce) { EXPECT_EQ(open_failure("").code, ExitCode::cannot_create); }

TEST_F(Output, AcceptsALongName) {
    const std::string path = folder_ / std::string(250, 'x');
    EXPECT_EQ(failure_of([&] { put(path, "new"); }), Failure{});
}

TEST_F(Output, WritesDevicesDirectly) {
    put("/dev/null", "gone", true);
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
    fs::create_symlink("/dev/null", path_);
    put(path_, "gone");
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST_F(Output, WritesAFifoDirectly) {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    std::string got;
    std::thread reader([&] { got = read_file(path_); });
    put(path_, "through", true);
    reader.join();
    EXPECT_EQ(got, "through");
    EXPECT_TRUE(fs::is_fifo(path_));
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

// As /dev/stdout does, whose last link leads to a name like pipe:[4711] that is in no directory.
TEST_F(Output, WritesAPipeBehindALink) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const FileDescriptor from(ends[0]);
    const FileDescriptor to(ends[1]);
    fs::create_symlink("/proc/self/fd/" + std::to_string(to.get()), path_);
    EXPECT_EQ(failure_of([&] { put(path_, "through"); }), Failure{});
    ASSERT_EQ(::fcntl(from.get(), F_SETFL, O_NONBLOCK), 0);
    char text[8] = {};
    EXPECT_EQ(::read(from.get(), text, 7), 7);
    EXPECT_STREQ(text, "through");
}

TEST_F(Output, SaysThatTheDiskIsFull) {
    if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
    EXPECT_EQ(failure_of([&] { put("/dev/full", "text"); }),
              (Failure{ExitCode::io_error, "/dev/full: cannot write: No space left on device"}));
}

TEST_F(Output, FailedRenameLeavesNoTemporary) {
    Failure failure;
    {
        OutputFile file(path_, interrupts_);
        fs::create_directory(path_); // meanwhile
        failure = failure_of([&] { file.commit(false); });
    }
    EXPECT_EQ(failure.code, ExitCode::io_error);
    EXPECT_NE(failure.message.find(path_ + ": cannot rename "), std::string::npos) << failure;
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST(OutputDeath, SignalLeavesTheOldFileAndNoTemporary) {
    const test::TemporaryFolder folder;
    const std::string path = folder / "a.out";
    write_file(path, "old");
    EXPECT_EXIT(
        {
            ::alarm(5);
            std::signal(SIGINT, SIG_DFL);
            InterruptGuard interrupts;
            OutputFile file(path, interrupts);
            file.write("new", 3);
            ::kill(::getpid(), SIGINT);
            for (;;) ::pause();
        },
        ::testing::ExitedWithCode(130), "");
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(folder.names(), Names{"a.out"});
}

// In a child process that is not root: how opening `path` fails.
void try_as_ordinary_user(const std::string& path) {
    test::become_ordinary_user();
    InterruptGuard interrupts;
    const Failure failure = failure_of([&] { OutputFile file(path, interrupts); });
    std::fputs(failure.message.c_str(), stderr);
    ::_exit(static_cast<int>(failure.code));
}

TEST(OutputDeath, RefusesWhatItMayNotWrite) {
    if (!test::can_be_ordinary_user()) GTEST_SKIP() << "root here cannot become another user";
    const test::TemporaryFolder folder;
    const std::string path = folder / "a.out";
    write_file(path, "old");
    ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
    ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
    EXPECT_EXIT(try_as_ordinary_user(path), ::testing::ExitedWithCode(73), "a.out: cannot write: Permission denied$");
    ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
    EXPECT_EXIT(try_as_ordinary_user(folder / "new"), ::testing::ExitedWithCode(73),
                "new: cannot create a file in .*: Permission denied$");
    ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
    EXPECT_EQ(read_file(path), "old");
    EXPECT_EQ(folder.names(), Names{"a.out"});
}

class RefuseOverwriting : public Output {
protected:
    void SetUp() override { write_file(input_, test::counting_case(1, 1, 1)); }

    Failure failure(const std::string& output) {
        return failure_of([&] { refuse_overwriting(CaseReader(input_), output); });
    }
    Failure same_file(const std::string& output) const {
        return {ExitCode::usage, output + ": output is the same file as input " + input_};
    }

    std::string input_ = folder_ / "a.in";
};

TEST_F(RefuseOverwriting, TheInputUnderAnyName) {
    fs::create_symlink("a.in", folder_ / "link");
    fs::create_hard_link(input_, folder_ / "hard");
    for (const char* name : {"a.in", "./a.in", "link", "hard"})
        EXPECT_EQ(failure(folder_ / name), same_file(folder_ / name));
}

TEST_F(RefuseOverwriting, ButNoOtherFile) {
    fs::copy_file(input_, folder_ / "copy");
    fs::create_symlink("none", folder_ / "dangling");
    for (const char* name : {"copy", "none", "dangling"}) EXPECT_EQ(failure(folder_ / name), Failure{}) << name;
}

TEST_F(Output, RefusesTwoOutputsInOneFile) {
    write_file(folder_ / "there", "");
    fs::create_symlink("there", folder_ / "link");
    fs::create_hard_link(folder_ / "there", folder_ / "hard");
    const auto code = [&](const std::string& a, const std::string& b) {
        return failure_of([&] { refuse_same_output(folder_ / a, folder_ / b); }).code;
    };
    for (const char* name : {"there", "link", "hard", "./there"})
        EXPECT_EQ(code("there", name), ExitCode::usage) << name;
    EXPECT_EQ(code("new", "new"), ExitCode::usage);
    EXPECT_EQ(code("there", "new"), ExitCode::ok);
    EXPECT_EQ(code("new", "newer"), ExitCode::ok);
    EXPECT_EQ(failure_of([] { refuse_same_output("/dev/null", "/dev/null"); }).code, ExitCode::ok);
}

} // namespace
} // namespace hw4
