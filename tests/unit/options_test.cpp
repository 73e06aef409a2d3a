#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "src/commands/options.h"
#include "src/commands/pair_list.h"
#include "src/io/run_files.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

using Words = std::vector<std::string>;

Options parse(Words words) {
    words.insert(words.begin(), "hw4");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return parse_options(static_cast<int>(words.size()), argv.data());
}

class CommandLine : public ::testing::Test {
protected:
    // With this variable, getopt_long would end the options at the first file name.
    void SetUp() override { ::unsetenv("POSIXLY_CORRECT"); }

    static Failure failure(const Words& words) {
        return failure_of([&] { parse(words); });
    }
    static Failure wrong(const std::string& message) { return {ExitCode::usage, message + "; see --help"}; }
};

TEST_F(CommandLine, SaysWhatIsWrongAndWhatItNeeds) {
    const std::pair<Words, const char*> refusals[] = {
        {{}, "need INPUT and OUTPUT, got 0 names"},
        {{"in", "--time"}, "need INPUT and OUTPUT, got 1 name"},
        {{"in", "out", "more"}, "need INPUT and OUTPUT, got 3 names"},
        {{"--device", "cuda", "in", "out"}, "--device 'cuda': need auto, gpu or cpu"},
        {{"--copies", "2D", "in", "out"}, "--copies '2D': need 2d or linear"},
        {{"--fast=2", "in", "out"}, "unknown or ambiguous option '--fast=2'"},
        {{"--time", "-xy", "in", "out"}, "unknown or ambiguous option '-x'"},
        {{"--time=5", "in", "out"}, "option '--time=5' takes no value"},
        {{"--help=all"}, "option '--help=all' takes no value"},
    };
    for (const auto& [words, message] : refusals) EXPECT_EQ(failure(words), wrong(message));
    for (const std::string text : {"0", "17", "-1", "", "4x", "+4", " 4", "99999999999999999999"})
        EXPECT_EQ(failure({"--streams", text, "in", "out"}),
                  wrong("--streams '" + text + "': need a whole number from 1 to 16"));
    for (const std::string name : {"--contract", "--device", "--kernel", "--threads", "--json", "--pairs"})
        EXPECT_EQ(failure({"in", "out", name}), wrong("option '" + name + "' needs a value"));
    for (const std::string option : {"--kernel", "--kernel-file", "--lse", "--json", "--trace", "--pairs"})
        EXPECT_EQ(failure({option, "", "in", "out"}), wrong(option + " '': need a name"));
}

TEST_F(CommandLine, Gpus) {
    EXPECT_FALSE(parse({"in", "out"}).gpus.has_value());
    EXPECT_EQ(parse({"--gpus", "all", "in", "out"}).gpus, 0);
    EXPECT_EQ(parse({"--gpus", "3", "in", "out"}).gpus, 3);
    EXPECT_EQ(parse({"--gpus", "all", "in", "out"}).device, Device::gpu);
    for (const std::string text : {"", "0", "-1", "some", "1025", "0,1"})
        EXPECT_EQ(failure({"--gpus", text, "in", "out"}), wrong("--gpus '" + text + "': need all or a number"));
    EXPECT_EQ(failure({"--gpus", "all", "--device", "cpu", "in", "out"}),
              wrong("--gpus is for GPUs, but --device asks for the CPU"));
    EXPECT_EQ(failure({"--gpus", "all", "a", "b", "c", "d"}), wrong("--gpus is for one case"));
}

TEST_F(CommandLine, Contracts) {
    for (const Contract* contract : contracts())
        EXPECT_EQ(parse({"--contract", contract->name, "in", "out"}).engine.contract, contract);
    for (const std::string name : {"", "f", "float", "fixed and f32"})
        EXPECT_EQ(failure({"--contract", name, "in", "out"}),
                  wrong("--contract '" + name + "': need f32, fixed, fixed16, bf16 or fp16"));
}

TEST_F(CommandLine, AnOperationThatTheContractHas) {
    EXPECT_EQ(parse({"--backward", "in", "out"}).operation, &kBackward);
    EXPECT_EQ(parse({"--contract=f32", "--backward", "--causal", "in", "out"}).operation, &kBackward);
    EXPECT_EQ(failure({"--backward", "--contract=fixed", "in", "out"}),
              wrong("--backward: the contract fixed lacks it"));
    EXPECT_EQ(failure({"--backward=1", "in", "out"}), wrong("option '--backward=1' takes no value"));
}

TEST_F(CommandLine, AKernelFileHasOneKernelForTheGpu) {
    EXPECT_EQ(parse({"--kernel-file", "mine.so", "in", "out"}).kernel_file, "mine.so");
    const auto refused = [](const Words& more) {
        Words words = {"--kernel-file", "mine.so", "in", "out"};
        words.insert(words.end(), more.begin(), more.end());
        return failure(words);
    };
    EXPECT_EQ(refused({"--kernel", "neon"}), wrong("--kernel-file 'mine.so' and --kernel: take one of the two"));
    EXPECT_EQ(refused({"--device", "cpu"}),
              wrong("--kernel-file 'mine.so' is for the GPU, but --device asks for the CPU"));
    EXPECT_EQ(refused({"--lse", "rows"}), wrong("--kernel-file 'mine.so' gives no logsumexp for --lse"));
}

TEST_F(CommandLine, LogsumexpsAreOfOneCase) {
    for (const Words& cases : {Words{"a", "b", "c", "d"}, Words{"--pairs", "list"}}) {
        Words words = {"--lse", "rows"};
        words.insert(words.end(), cases.begin(), cases.end());
        EXPECT_EQ(failure(words), wrong("--lse 'rows' is the file of one case"));
    }
    EXPECT_EQ(failure({"--lse", "-", "in", "-"}), wrong("only one output can be '-', standard output"));
}

using Names = std::pair<std::string, std::string>;

Names names_in(const std::string& line) {
    const auto pair = pair_in(line, "list:7");
    return pair ? Names(pair->input, pair->output) : Names();
}

TEST(PairInALine, HasBlanksBetweenTheNames) {
    EXPECT_EQ(names_in("a.in a.out"), Names("a.in", "a.out"));
    EXPECT_EQ(names_in("  a.in   a.out  "), Names("a.in", "a.out"));
    EXPECT_EQ(names_in("a.in a.out\r"), Names("a.in", "a.out"));
    EXPECT_EQ(names_in("\xc3\xa9#1 -"), Names("\xc3\xa9#1", "-"));
}

TEST(PairInALine, MayHaveBlanksInNamesWithATabBetweenThem) {
    EXPECT_EQ(names_in("my case.in\tmy case.out"), Names("my case.in", "my case.out"));
    EXPECT_EQ(names_in(" a\t b "), Names(" a", " b "));
}

TEST(PairInALine, MayBeNone) {
    for (const std::string line : {"", "   ", "\t", "\r", "# a.in a.out", "#"})
        EXPECT_EQ(names_in(line), Names()) << line;
}

TEST(PairInALine, IsTwoNames) {
    const auto wrong = [](const std::string& line, const std::string& why) {
        EXPECT_EQ(failure_of([&] { names_in(line); }), (Failure{ExitCode::usage, "list:7: " + why})) << line;
    };
    const std::string hint = "; a tab goes between names with blanks";
    wrong("a.in", "need INPUT and OUTPUT, got 1 name" + hint);
    wrong("my case.in case.out", "need INPUT and OUTPUT, got 3 names" + hint);
    wrong(" # a.in a.out", "need INPUT and OUTPUT, got 3 names" + hint);
    wrong("a\tb\tc", "need one tab, between INPUT and OUTPUT, got several");
    wrong("a\t", "need a name on both sides of the tab");
    wrong("\tb", "need a name on both sides of the tab");
    wrong(std::string("a\0.in b", 7), "a byte 0, which no name has");
}

// The entries of a list: "INPUT OUTPUT", or the message where an entry is invalid.
std::vector<std::string> all_of(PairList& list) {
    std::vector<std::string> all;
    while (const auto pair = list.next())
        all.push_back(pair->flaw ? failure_of([&] { std::rethrow_exception(pair->flaw); }).message
                                 : pair->names.input + " " + pair->names.output);
    return all;
}

TEST(PairList, AreCountedAndGoOnAfterAFlaw) {
    const TemporaryFolder folder;
    const std::string path = folder / "list";
    write_file(path, "a b\n\n# none\nc\nd e\n\nf g");
    PairList list({}, path);
    EXPECT_EQ(all_of(list),
              (std::vector<std::string>{
                  "a b", path + ":4: need INPUT and OUTPUT, got 1 name; a tab goes between names with blanks", "d e",
                  "f g"}));
    EXPECT_FALSE(list.next().has_value());
}

TEST(PairList, MayBeLongButNotEndless) {
    const TemporaryFolder folder;
    const std::string path = folder / "list";
    const std::string name(4000, 'x');
    write_file(path, name + " " + name + "\n" + std::string(100000, 'y'));
    PairList list({}, path);
    EXPECT_EQ(all_of(list),
              (std::vector<std::string>{name + " " + name, path + ":2: a line of more than 65536 bytes"}));
}

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
