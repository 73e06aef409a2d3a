#include "src/io/run_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

namespace fs = std::filesystem;

class FilesOfARun : public ::testing::Test {
protected:
    FilesOfARun() {
        for (const char* name : {"a.in", "b.in"}) write_file(folder_ / name, "case");
        files_.add_input(folder_ / "a.in");
        files_.add_output(folder_ / "a.out");
    }

    Failure input(const std::string& name) {
        return failure_of([&] { files_.add_input(folder_ / name); });
    }
    Failure output(const std::string& name) {
        return failure_of([&] { files_.add_output(folder_ / name); });
    }
    Failure usage(const std::string& name, const std::string& is, const std::string& other) const {
        return {ExitCode::usage, (folder_ / name) + is + (folder_ / other)};
    }

    TemporaryFolder folder_;
    RunFiles files_;
};

TEST_F(FilesOfARun, HaveNoOutputTwiceByWhateverName) {
    fs::create_symlink("a.out", folder_ / "link");
    fs::create_directory_symlink(".", folder_ / "directory");
    for (const bool there : {false, true}) {
        if (there) write_file(folder_ / "a.out", "result");
        for (const char* name : {"a.out", "./a.out", "link", "directory/a.out"})
            EXPECT_EQ(output(name), usage(name, ": would overwrite the output ", "a.out")) << there;
    }
    fs::create_directory(folder_ / "other");
    EXPECT_EQ(output("other/a.out"), Failure{});
    EXPECT_EQ(output("missing/a.out"), Failure{}) << "OutputFile says what is wrong";
}

TEST_F(FilesOfARun, HaveAPipeAsOneInput) {
    ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    EXPECT_EQ(input("pipe"), Failure{});
    EXPECT_EQ(input("pipe").code, ExitCode::usage);
}

// A new file may get the inode of a removed one.
TEST_F(FilesOfARun, AreKnownByNameOnceTheyAreReplaced) {
    write_file(folder_ / "old.out", "old");
    files_.add_input(folder_ / "b.in");
    files_.add_output(folder_ / "old.out");
    fs::rename(folder_ / "old.out", folder_ / "inode.out"); // simulates a new file with that inode
    fs::rename(folder_ / "b.in", folder_ / "inode too.out");
    EXPECT_EQ(output("inode.out"), Failure{});
    EXPECT_EQ(output("inode too.out"), Failure{});
    EXPECT_EQ(output("old.out").code, ExitCode::usage) << "which another case writes";
    EXPECT_EQ(output("b.in").code, ExitCode::usage) << "which another case reads";
}

} // namespace
} // namespace hw4
