#include "src/commands/pair_list.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

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

} // namespace
} // namespace hw4
