#include "src/io/files_of_run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

using test::Failure;
using test::failure_of;
using test::write_file;

class FilesOfARun : public ::testing::Test {
protected:
    FilesOfARun() {
        for (const char* name : {"a.in", "b.in"}) write_file(folder_ / name, "case");
        files_.add_case(folder_ / "a.in", folder_ / "a.out");
    }

    Failure adding(const std::string& input, const std::string& output) {
        return failure_of([&] { files_.add_case(folder_ / input, folder_ / output); });
    }
    Failure would_overwrite(const std::string& output) const {
        return {ExitCode::usage, (folder_ / output) + ": would overwrite the output " + (folder_ / "a.out")};
    }
    Failure is_input(const std::string& output, const std::string& input) const {
        return {ExitCode::usage, (folder_ / output) + ": output is the same file as input " + (folder_ / input)};
    }
    Failure is_output(const std::string& input) const {
        return {ExitCode::usage, (folder_ / input) + ": input is the same file as output " + (folder_ / "a.out")};
    }

    test::TemporaryFolder folder_;
    FilesOfRun files_;
};

TEST_F(FilesOfARun, MayHaveAnInputTwice) {
    EXPECT_EQ(adding("b.in", "b.out"), Failure{});
    EXPECT_EQ(adding("a.in", "c.out"), Failure{});
}

TEST_F(FilesOfARun, HaveNoOutputTwiceByWhateverName) {
    EXPECT_EQ(adding("b.in", "a.out"), would_overwrite("a.out"));
    EXPECT_EQ(adding("b.in", "./a.out"), would_overwrite("./a.out"));
    std::filesystem::create_symlink("a.out", folder_ / "link");
    EXPECT_EQ(adding("b.in", "link"), would_overwrite("link"));
    EXPECT_EQ(failure_of([&] { files_.add_output(folder_ / "a.out"); }), would_overwrite("a.out"));
    EXPECT_EQ(adding("b.in", "b.out"), Failure{}) << "a case that was refused is none";
}

TEST_F(FilesOfARun, HaveNoOutputThatIsAnInput) {
    EXPECT_EQ(adding("b.in", "a.in"), is_input("a.in", "a.in"));
    EXPECT_EQ(adding("b.in", "b.in"), is_input("b.in", "b.in"));
    std::filesystem::create_hard_link(folder_ / "a.in", folder_ / "hard");
    EXPECT_EQ(adding("b.in", "hard"), is_input("hard", "a.in"));
}

// Whether the output is there yet or not, or was replaced since.
TEST_F(FilesOfARun, HaveNoInputThatIsAnOutput) {
    EXPECT_EQ(adding("a.out", "b.out"), is_output("a.out"));
    write_file(folder_ / "a.out", "result");
    EXPECT_EQ(adding("a.out", "b.out"), is_output("a.out"));
}

TEST_F(FilesOfARun, HardLinksOfAnOldOutputAreOneFile) {
    write_file(folder_ / "old.out", "old");
    std::filesystem::create_hard_link(folder_ / "old.out", folder_ / "same.out");
    EXPECT_EQ(adding("b.in", "old.out"), Failure{});
    EXPECT_EQ(adding("b.in", "same.out").code, ExitCode::usage);
}

TEST_F(FilesOfARun, MayAllGoToADevice) {
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(failure_of([&] { files_.add_case(folder_ / "b.in", "/dev/null"); }), Failure{});
}

// Who opens them says what is wrong.
TEST_F(FilesOfARun, NeedNotBeThere) {
    EXPECT_EQ(adding("missing.in", "missing/b.out"), Failure{});
    EXPECT_EQ(adding("missing.in", "missing/b.out"), Failure{});
}

TEST_F(FilesOfARun, AreKeptAsFarAsTheyAreThere) {
    EXPECT_EQ(files_.kept().size(), 1u); // a.in
    write_file(folder_ / "old.out", "old");
    EXPECT_EQ(adding("b.in", "old.out"), Failure{});
    EXPECT_EQ(files_.kept().size(), 3u);
}

TEST_F(FilesOfARun, HaveOneCaseFromStandardInput) {
    EXPECT_EQ(failure_of([&] { files_.add_case("-", folder_ / "b.out"); }), Failure{});
    EXPECT_EQ(failure_of([&] { files_.add_case("-", folder_ / "c.out"); }),
              (Failure{ExitCode::usage, "standard input: taken by the case for " + (folder_ / "b.out")}));
}

TEST_F(FilesOfARun, HaveOneOutputOnStandardOutput) {
    EXPECT_EQ(failure_of([&] { files_.add_case(folder_ / "b.in", "-"); }), Failure{});
    EXPECT_EQ(failure_of([&] { files_.add_output("-"); }),
              (Failure{ExitCode::usage, "standard output: taken by the case of " + (folder_ / "b.in")}));
}

TEST_F(FilesOfARun, MayNeedTheStandardStreamsThemselves) {
    files_.add_input("-", "the list");
    files_.take_standard_output("the lines");
    EXPECT_EQ(failure_of([&] { files_.add_case("-", folder_ / "b.out"); }),
              (Failure{ExitCode::usage, "standard input: taken by the list"}));
    EXPECT_EQ(failure_of([&] { files_.add_case(folder_ / "b.in", "-"); }),
              (Failure{ExitCode::usage, "standard output: taken by the lines"}));
    EXPECT_EQ(adding("b.in", "b.out"), Failure{});
}

TEST_F(FilesOfARun, KnowWhetherStandardOutputIsAmongThem) {
    EXPECT_FALSE(files_.has_standard_output());
    EXPECT_EQ(failure_of([&] { files_.add_case(folder_ / "b.in", "-"); }), Failure{});
    EXPECT_TRUE(files_.has_standard_output());
}

TEST_F(FilesOfARun, DoNotOverwriteTheListOfThem) {
    write_file(folder_ / "list", "b.in b.out");
    files_.add_input(folder_ / "list", "the list");
    EXPECT_EQ(adding("b.in", "list"), is_input("list", "list"));
    EXPECT_EQ(failure_of([&] { files_.add_output(folder_ / "list"); }), is_input("list", "list"));
}

TEST_F(FilesOfARun, HaveAPipeAsOneInput) {
    ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    EXPECT_EQ(adding("pipe", "b.out"), Failure{});
    EXPECT_EQ(
        adding("pipe", "c.out"),
        (Failure{ExitCode::usage, (folder_ / "pipe") + ": can be read once, and is input " + (folder_ / "pipe")}));
}

// A file that replaces another may get its number, or that of one that is gone.
TEST_F(FilesOfARun, AreKnownByTheirNamesOnceTheyAreSettled) {
    write_file(folder_ / "old.out", "old");
    const FilesOfRun::OfCase first = files_.add_case(folder_ / "b.in", folder_ / "old.out");
    std::filesystem::rename(folder_ / "old.out", folder_ / "number.out"); // stands for a new file with that number
    std::filesystem::rename(folder_ / "b.in", folder_ / "number_too.out");
    EXPECT_EQ(adding("a.in", "number.out").code, ExitCode::usage);
    EXPECT_EQ(adding("a.in", "number_too.out").code, ExitCode::usage);
    files_.forget(first);
    EXPECT_EQ(adding("a.in", "number.out"), Failure{});
    EXPECT_EQ(adding("a.in", "number_too.out"), Failure{});
    EXPECT_EQ(adding("a.in", "old.out").code, ExitCode::usage) << "which another case has written";
    EXPECT_EQ(adding("a.in", "b.in").code, ExitCode::usage) << "which another case has read";
}

} // namespace
} // namespace hw4
