#include "src/commands/options.h"

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

} // namespace
} // namespace hw4
