// tests/program/bench_test.py reads the pickles of hw4 bench by Python's own.
#include "src/base/pickle.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hw4 {
namespace {

TEST(Pickle, HasTheOpcodesOfProtocol2) {
    Pickle pickle;
    pickle.add_dict([&] {
        pickle.add("a", uint64_t{0x0102030405060708});
        pickle.add("b");
        pickle.add_list(1, [&](size_t) { pickle.add("\xc3\xa9"); });
    });
    const std::string expected = std::string("\x80\x02}(") + std::string("X\x01\0\0\0a", 6) +
                                 "\x8a\x08\x08\x07\x06\x05\x04\x03\x02\x01" + std::string("X\x01\0\0\0b", 6) + "](" +
                                 std::string("X\x02\0\0\0\xc3\xa9", 7) + "eu.";
    EXPECT_EQ(pickle.text(), expected);
}

TEST(Pickle, ListsComeInPartsOfAThousand) {
    for (const auto& [count, parts] : {std::pair<size_t, int>{0, 0}, {1, 1}, {1000, 1}, {1001, 2}, {3000, 3}}) {
        Pickle pickle;
        pickle.add_list(count, [&](size_t) { pickle.add(""); });
        const std::string text = pickle.text();
        EXPECT_EQ(std::count(text.begin(), text.end(), '('), parts) << count;
        EXPECT_EQ(std::count(text.begin(), text.end(), 'e'), parts) << count;
        EXPECT_EQ(std::count(text.begin(), text.end(), 'X'), count);
    }
}

} // namespace
} // namespace hw4
