#include "src/base/refused_option.h"

#include <gtest/gtest.h>

namespace hw4 {
namespace {

TEST(EditDistance, CountsLettersToInsertDeleteReplaceAndSwap) {
    EXPECT_EQ(edit_distance("time", "time"), 0u);
    EXPECT_EQ(edit_distance("", "time"), 4u);
    EXPECT_EQ(edit_distance("tme", "time"), 1u);
    EXPECT_EQ(edit_distance("timee", "time"), 1u);
    EXPECT_EQ(edit_distance("tame", "time"), 1u);
    EXPECT_EQ(edit_distance("tiem", "time"), 1u);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(DidYouMean, NamesTheFirstOfTheClosest) {
    EXPECT_EQ(did_you_mean("fixed15", {"fixed", "fixed16", "fixed14"}), " (did you mean fixed16?)");
    EXPECT_EQ(did_you_mean("tme", {"sync", "time"}, "--"), " (did you mean --time?)");
}

TEST(DidYouMean, SaysNothingOfWordsThatDifferInMoreThanAThird) {
    EXPECT_EQ(did_you_mean("f64", {"f32", "fixed"}), "");
    EXPECT_EQ(did_you_mean("t", {"time", "trace"}), "");
    EXPECT_EQ(did_you_mean("", {"bench", ""}), "");
    EXPECT_EQ(did_you_mean("--kernel", {"bench"}), "");
    EXPECT_EQ(did_you_mean(std::string(10000000, 'b'), {"bench"}), "");
}

} // namespace
} // namespace hw4
