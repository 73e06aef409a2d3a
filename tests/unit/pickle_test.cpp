// tests/program/bench_test.py reads hw4 bench's pickles with Python's module.
#include "src/base/pickle.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hw4 {
namespace {

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
