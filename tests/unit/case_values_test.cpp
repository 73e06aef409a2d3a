#include "src/io/case_values.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>

#include "src/contracts/contract.h"
#include "src/problem/domain.h"
#include "tests/support/problems.h"

namespace hw4 {
namespace {

std::vector<float> values(const CaseRecipe& recipe) {
    std::vector<float> data(static_cast<size_t>(recipe.problem.batches) * recipe.problem.batch_input_floats());
    fill_case_values(recipe, 0, data.size(), data.data());
    return data;
}

TEST(CaseKinds, HaveNames) {
    EXPECT_EQ(case_kind_names(),
              (std::vector<std::string>{"uniform",  "equal",  "negative", "spread", "denormal",  "dominant", "vzero",
                                        "huge",     "fading", "climb",    "brink",  "threshold", "digits",   "normal:1",
                                        "stray:60", "sink:0", "low",      "gzero",  "gtiny",     "glimit"}));
    EXPECT_EQ(distribution_of("uniform").kind, CaseKind::uniform);
    EXPECT_EQ(distribution_of("climb").kind, CaseKind::climb);
    for (const std::string& name : case_kind_names()) EXPECT_EQ(spelling_of(distribution_of(name)), name);
}

TEST(CaseKinds, TakeANumberAfterAColon) {
    for (const char* text : {"normal:3", "normal:3.5", "stray:1000000", "sink:0.5", "sink:1"})
        EXPECT_EQ(spelling_of(distribution_of(text)), text);
    EXPECT_EQ(distribution_of("stray:1e6").kind, CaseKind::stray);
    EXPECT_EQ(distribution_of("stray:1e6").number, 1e6);
    EXPECT_EQ(distribution_of("stray").number, 60.0);
}

// Files on other machines, and the checksums of cases.tsv, depend on these very numbers.
TEST(CaseValues, AreTheseForever) {
    const std::vector<float> first = values({{1, 1, 2}, CaseKind::uniform, 1});
    EXPECT_EQ(first, (std::vector<float>{-0x1.97ac78p+0f, 0x1.9fc0ecp+0f, -0x1.faa948p-2f, -0x1.40e088p+1f,
                                         0x1.99acap+0f, 0x1.e48edp+0f}));
    const std::vector<std::pair<const char*, uLong>> sums = {
        {"uniform", 0xd7461d66},   {"equal", 0xac808f77},    {"negative", 0xdaac084f},   {"spread", 0xc431883c},
        {"denormal", 0xd33f4624},  {"dominant", 0x0c50fbe6}, {"vzero", 0x0f924dba},      {"huge", 0x749d645a},
        {"fading", 0xbbdd321f},    {"climb", 0x9b7fd8c1},    {"brink", 0x2a156bc8},      {"threshold", 0x5fbdb732},
        {"digits", 0xa041d6b4},    {"normal", 0xf2f63886},   {"normal:3.5", 0x956162cf}, {"stray", 0x30e3dd0b},
        {"stray:1e6", 0x4682db4a}, {"sink", 0x56291004},     {"sink:1", 0xaf26e33b},     {"low", 0x943f6851}};
    for (const auto& [name, sum] : sums) {
        const std::vector<float> data = values({{2, 40, 6}, distribution_of(name), 9});
        EXPECT_EQ(crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size() * sizeof(float))),
                  sum)
            << name;
    }
}

TEST(CaseValues, DoNotDependOnTheChunks) {
    for (const std::string& name : case_kind_names()) {
        const CaseRecipe recipe{{2, 33, 5}, distribution_of(name), 3};
        const std::vector<float> whole = values(recipe);
        for (const size_t step : {size_t{1}, size_t{7}, size_t{500}}) {
            std::vector<float> pieces(whole.size());
            for (size_t at = 0; at < whole.size(); at += step)
                fill_case_values(recipe, at, std::min(step, whole.size() - at), pieces.data() + at);
            EXPECT_EQ(std::memcmp(whole.data(), pieces.data(), whole.size() * sizeof(float)), 0) << name << step;
        }
    }
}

// More than two of the pieces that threads take, from a position within one.
TEST(CaseValues, DoNotDependOnTheThreads) {
    const CaseRecipe recipe{{1, 1000, 64}, CaseKind::stray, 3};
    const std::vector<float> whole = values(recipe);
    std::vector<float> filled(whole.size() - 100);
    fill_in_parallel(recipe, 100, filled.size(), filled.data());
    EXPECT_TRUE(std::equal(filled.begin(), filled.end(), whole.begin() + 100));
}

TEST(CaseValues, AreInTheDomain) {
    for (const std::string& name : case_kind_names()) {
        for (Problem problem : {Problem{2, 200, 64}, Problem{1, kMostThresholdTokens, 8}})
            for (const Operation* operation : kOperations) {
                problem.operation = operation;
                const std::vector<float> data = values({problem, distribution_of(name), 5});
                EXPECT_NO_THROW(DomainCheck(name, problem, kF32.domain).check(0, problem.input_rows(), data.data()))
                    << problem.queries << operation->name;
            }
    }
}

// Kind brink: its keys are positive in even batches and negative in odd ones.
TEST(CaseValues, HeadsCountAsFurtherBatches) {
    const Problem problem = problem_of({2, 2, 2, 3, 5, 1});
    const std::vector<float> data = values({problem, CaseKind::brink, 1});
    for (size_t batch = 0; batch < 2; ++batch)
        for (size_t head = 0; head < 2; ++head)
            for (size_t key = 0; key < 5; ++key)
                EXPECT_EQ(data[batch * 26 + 6 + head * 5 + key] > 0, head == 0) << batch << head << key;
}

} // namespace
} // namespace hw4
