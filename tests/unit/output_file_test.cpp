#include "src/io/output_file.h"

#include <fcntl.h>

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class Output : public ::testing::Test {
protected:
    void put(const std::string& path, const std::string& text, bool sync = false) {
        OutputFile file(path, interrupts_);
        file.write(text.data(), text.size());
        file.commit(sync);
    }

    InterruptGuard interrupts_;
    TemporaryFolder folder_;
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

TEST_F(Output, TakesPartsOfOthersUntilItIsPublished) {
    const OutputForm form{false, {'h', 'e', 'a', 'd'}};
    {
        OutputFile file(path_, interrupts_, form);
        OutputFile others(path_, file.temporary(), form);
        EXPECT_TRUE(others.random_access());
        file.write_at(0, "one ", 4);
        others.write_at(4, "two", 3);
        others.finish(true);
        others.publish(true);
        EXPECT_FALSE(fs::exists(path_));
        file.commit(false);
    }
    EXPECT_EQ(read_file(path_), "headone two");
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST_F(Output, OfOthersIsToBeSeenAndTheSameFile) {
    OutputFile file(path_, interrupts_);
    const OutputFile::Temporary made = file.temporary();
    const auto failure = [&](const OutputFile::Temporary& seen) {
        return failure_of([&] { OutputFile(path_, seen, {}); });
    };
    const std::string none = folder_ / "none";
    EXPECT_EQ(failure({none, made.inode}),
              (Failure{ExitCode::cannot_create, path_ + ": cannot open " + none +
                                                    ", which the first rank has made: No such file or directory"}));
    EXPECT_EQ(failure({made.path, made.inode + 1}),
              (Failure{ExitCode::cannot_create, path_ + ": " + made.path + " is another file here than for the first " +
                                                    "rank, need a shared one"}));
}

TEST_F(Output, TakesPartsBeyond4GiB) {
    constexpr uint64_t kPlace = (uint64_t{1} << 33) + 3;
    {
        OutputFile file(path_, interrupts_);
        const Failure failure = failure_of([&] { file.write_at(kPlace, "end", 3); });
        if (failure.code == ExitCode::io_error) GTEST_SKIP() << "no file of 8 GiB, even of holes: " << failure.message;
        file.write_at(0, "start", 5);
        file.commit(false);
    }
    EXPECT_EQ(fs::file_size(path_), kPlace + 3);
    std::ifstream file(path_, std::ios::binary);
    char text[6] = {};
    file.read(text, 5);
    EXPECT_STREQ(text, "start");
    file.seekg(static_cast<std::streamoff>(kPlace));
    file.read(text, 3);
    EXPECT_EQ(std::string(text, 3), "end");
}

// Keeps a file of a killed run, and a link to another file.
TEST_F(Output, LeavesFilesUnderItsTemporaryNames) {
    const std::string start = path_ + ".hw4-" + std::to_string(::getpid());
    write_file(start + "-0.tmp", "left");
    fs::create_symlink(start + "-0.tmp", start + "-1.tmp");
    put(path_, "new");
    EXPECT_EQ(read_file(path_), "new");
    EXPECT_EQ(read_file(start + "-0.tmp"), "left");
    EXPECT_EQ(folder_.names().size(), 3u);
}

TEST_F(Output, NewFileFollowsTheUmask) {
    const mode_t before = ::umask(027);
    put(path_, "new");
    ::umask(before);
    EXPECT_EQ(mode_of(path_), 0640u);
}

// Set-user-id and similar bits are not kept. The test writes nothing: a write would clear them, except for root.
TEST_F(Output, KeepsTheModeOfTheOldFile) {
    const mode_t before = ::umask(077);
    for (const mode_t mode : {0600u, 0664u, 07755u}) {
        write_file(path_, "old");
        ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
        put(path_, "");
        EXPECT_EQ(mode_of(path_), mode & 0777);
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

// The links in /proc lead to the open file itself, and show only the name that it had.
TEST_F(Output, ByDescriptorReplacesTheNameIfThereIsOne) {
    write_file(path_, "old");
    const FileDescriptor opened(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    const std::string name = "/proc/self/fd/" + std::to_string(opened.get());
    put(name, "new");
    EXPECT_EQ(read_file(path_), "new");
    EXPECT_EQ(failure_of([&] { OutputFile file(name, interrupts_); }),
              (Failure{ExitCode::cannot_create,
                       name + ": cannot replace the file behind it, which is not at " + path_ + " (deleted)"}));
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

class Growing : public Output {};

TEST_F(Growing, IsCompleteAfterEachPart) {
    write_file(path_, "old");
    GrowingFile file(path_, interrupts_);
    EXPECT_EQ(read_file(path_), "old");
    file.begin("[1", "]");
    EXPECT_EQ(read_file(path_), "[1]");
    file.add(", 2");
    EXPECT_EQ(read_file(path_), "[1, 2]");
    file.add("");
    file.add(", 3");
    file.finish();
    EXPECT_EQ(read_file(path_), "[1, 2, 3]");
    EXPECT_EQ(folder_.names(), Names{"a.out"});
}

TEST_F(Growing, AFifoGetsAllAtTheEnd) {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    std::string got;
    std::thread reader([&] { got = read_file(path_); });
    GrowingFile file(path_, interrupts_);
    file.begin("[1", "]");
    file.add(", 2");
    file.finish();
    reader.join();
    EXPECT_EQ(got, "[1, 2]");
}

} // namespace
} // namespace hw4
