// What a run's files are called: none of its outputs may be its input or another of its outputs, by whatever names.
#include "src/io/output_file.h"
#include "tests/support/replacing.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

TEST(FileIdentity, IsThatOfTheDeviceToo) {
    struct stat a {};
    a.st_dev = 1;
    a.st_ino = 7;
    struct stat b = a;
    EXPECT_TRUE(same_file(a, b));
    b.st_dev = 2; // every file system counts its own
    EXPECT_FALSE(same_file(a, b));
    b = a;
    b.st_ino = 8;
    EXPECT_FALSE(same_file(a, b));
}

namespace fs = std::filesystem;
using test::Failure;
using test::failure_of;
using test::write_file;
using Names = std::vector<std::string>;

class RefuseOverwriting : public ::testing::Test {
protected:
    void SetUp() override { write_file(input_, test::counting_case(1, 1, 1)); }

    Failure failure(const std::string& output) {
        return failure_of([&] { refuse_overwriting(CaseReader(input_), output); });
    }
    Failure same_file(const std::string& output) const {
        return {ExitCode::usage, output + ": output is the same file as input " + input_};
    }

    test::TemporaryFolder folder_;
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

TEST_F(RefuseOverwriting, NorIsAFileOfTheRunALeftover) {
    const std::string path = folder_ / "a.out";
    InterruptGuard interrupts;
    const std::string input = path + ".hw4-1-0.tmp";
    const std::string old_report = path + ".hw4-1-1.tmp";
    fs::rename(input_, input);
    write_file(old_report, "old");
    fs::create_symlink(old_report, folder_ / "report");
    const auto kept = files_of_run(CaseReader(input), {path, folder_ / "report", ""});
    EXPECT_EQ(OutputFile(path, interrupts, kept).leftovers(), Names{});
    write_file(path, "old");
    EXPECT_EQ(OutputFile(path, interrupts, kept).leftovers(), Names{});
    EXPECT_EQ(OutputFile(path, interrupts).leftovers().size(), 2u);
}

class RefuseSameOutput : public ::testing::Test {
protected:
    test::TemporaryFolder folder_;
};

TEST_F(RefuseSameOutput, UnderAnyName) {
    write_file(folder_ / "there", "");
    fs::create_symlink("there", folder_ / "link");
    fs::create_hard_link(folder_ / "there", folder_ / "hard");
    const auto code = [&](const std::string& a, const std::string& b) {
        return failure_of([&] { refuse_same_output(folder_ / a, folder_ / b); }).code;
    };
    for (const char* name : {"there", "link", "hard", "./there"})
        EXPECT_EQ(code("there", name), ExitCode::usage) << name;
    fs::create_symlink("./new", folder_ / "link to new");
    for (const char* name : {"new", "./new", "link to new"}) EXPECT_EQ(code("new", name), ExitCode::usage) << name;
    fs::create_directory(folder_ / "folder");
    EXPECT_EQ(code("new", "folder/new"), ExitCode::ok);
    EXPECT_EQ(code("new", "no folder/new"), ExitCode::ok); // which OutputFile refuses
    fs::create_directory_symlink("folder", folder_ / "other name");
    fs::create_symlink("other name/new", folder_ / "link to other name");
    for (const char* name : {"other name/new", "folder/../folder/new", "link to other name"})
        EXPECT_EQ(code("folder/new", name), ExitCode::usage) << name;
    fs::create_directories(folder_ / "folder/deeper");
    fs::create_directory_symlink("folder/deeper", folder_ / "deep"); // so deep/.. is folder
    EXPECT_EQ(code("folder/new", "deep/../new"), ExitCode::usage);
    EXPECT_EQ(code("new", "deep/../new"), ExitCode::ok);
    EXPECT_EQ(code("there", "new"), ExitCode::ok);
    EXPECT_EQ(code("new", "newer"), ExitCode::ok);
    EXPECT_EQ(failure_of([] { refuse_same_output("/dev/null", "/dev/null"); }).code, ExitCode::ok);
    EXPECT_EQ(failure_of([&] { refuse_same_output(folder_ / "new", "/dev/null"); }).code, ExitCode::ok);
}

TEST_F(RefuseSameOutput, ThatOthersReplaceMeanwhile) {
    const std::string path = folder_ / "a.out";
    write_file(path, "old");
    const test::Replacing others(path);
    int refused = 0;
    for (int i = 0; i < 5000; ++i)
        refused += failure_of([&] { refuse_same_output(path, path); }).code == ExitCode::usage ? 1 : 0;
    EXPECT_EQ(refused, 5000);
}

} // namespace
} // namespace hw4
