#include "src/bench/timing_line.h"

#include <gtest/gtest.h>

namespace hw4::gpu {
namespace {

TEST(TimingLine, HasTheShape) {
    EXPECT_EQ(problem_fields({4, 16384, 64}),
              "\"batches\": 4, \"tokens\": 16384, \"dim\": 64, \"flop\": 2.74877907e+11");
}

TEST(TimingLine, HasTheMaskAndTheWorkThatItLeaves) {
    Problem problem(4, 100, 64);
    EXPECT_EQ(mask_field(problem), "\"mask\": \"none\"");
    problem.mask = Mask::causal;
    EXPECT_EQ(mask_field(problem), "\"mask\": \"causal\"");
    EXPECT_EQ(problem_fields(problem), "\"batches\": 4, \"tokens\": 100, \"dim\": 64, \"flop\": 5171200");
}

TEST(TimingLine, HasTheOperationAndItsWork) {
    Problem problem(4, 100, 64);
    EXPECT_EQ(operation_field(problem), "\"operation\": \"forward\"");
    problem.operation = &kBackward;
    EXPECT_EQ(operation_field(problem), "\"operation\": \"backward\"");
    EXPECT_EQ(problem_fields(problem), "\"batches\": 4, \"tokens\": 100, \"dim\": 64, \"flop\": 25600000");
    EXPECT_EQ(scratch_field(size_t{5} << 30), "\"scratch_bytes\": 5368709120");
}

TEST(TimingLine, HasTheKindOfItsData) {
    EXPECT_EQ(kind_field(CaseKind::uniform), "\"kind\": \"uniform\"");
    EXPECT_EQ(kind_field({CaseKind::normal, 3.5}), "\"kind\": \"normal:3.5\"");
    EXPECT_EQ(elements_field(Element::bf16), "\"elements\": \"bf16\"");
}

TEST(TimingLine, HasEverySample) {
    EXPECT_EQ(timing_fields({2, {0.5, 0.000123456789, 3}}), "\"launches\": 2, \"seconds\": [0.5, 0.000123456789, 3]");
    EXPECT_EQ(timing_fields({1, {}}), "\"launches\": 1, \"seconds\": []");
}

} // namespace
} // namespace hw4::gpu
