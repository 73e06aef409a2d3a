#include "src/io/case_values.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "src/base/error.h"
#include "src/contracts/contract.h"
#include "src/contracts/f32/forward.h"
#include "src/contracts/fixed/forward.h"
#include "src/problem/domain.h"

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

TEST(CaseKinds, AreRefused) {
    for (const char* text : {"", "Uniform", "uniform ", "climbing", "odd:3", "uniform:3", "low:", "normal:", "normal:x",
                             "stray:-1", "sink:1.5"})
        EXPECT_THROW(distribution_of(text), Error) << text;
}

// The files on other machines, and the check sums of cases.tsv, come from these very numbers.
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

// More than two of the pieces that threads take, from a place within one.
TEST(CaseValues, DoNotDependOnTheThreads) {
    const CaseRecipe recipe{{1, 1000, 64}, CaseKind::stray, 3};
    const std::vector<float> whole = values(recipe);
    std::vector<float> filled(whole.size() - 100);
    fill_in_parallel(recipe, 100, filled.size(), filled.data());
    EXPECT_TRUE(std::equal(filled.begin(), filled.end(), whole.begin() + 100));
}

TEST(CaseValues, DependOnTheSeedAndTheBatch) {
    const std::vector<float> one = values({{2, 10, 10}, CaseKind::uniform, 1});
    const std::vector<float> two = values({{2, 10, 10}, CaseKind::uniform, 2});
    EXPECT_EQ(std::inner_product(one.begin(), one.end(), two.begin(), 0, std::plus<>(), std::equal_to<>()), 0);
    EXPECT_EQ(
        std::inner_product(one.begin(), one.begin() + 300, one.begin() + 300, 0, std::plus<>(), std::equal_to<>()), 0);
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

// Of kind brink, whose keys are positive in even batches and negative in odd ones.
TEST(CaseValues, HeadsCountAsFurtherBatches) {
    Problem problem(2, 3, 1);
    problem.heads = problem.kv_heads = 2;
    problem.keys = 5;
    const std::vector<float> data = values({problem, CaseKind::brink, 1});
    for (size_t batch = 0; batch < 2; ++batch)
        for (size_t head = 0; head < 2; ++head)
            for (size_t key = 0; key < 5; ++key)
                EXPECT_EQ(data[batch * 26 + 6 + head * 5 + key] > 0, head == 0) << batch << head << key;
}

TEST(CaseValues, HeadsThatShareKeysAreOfTheirKind) {
    Problem problem(1, 64, 8);
    const std::vector<float> alone = values({problem, CaseKind::threshold, 1});
    problem.heads = 3;
    const std::vector<float> data = values({problem, CaseKind::threshold, 1});
    const size_t matrix = problem.floats_in(64);
    for (size_t head = 0; head < 3; ++head)
        EXPECT_TRUE(std::equal(alone.begin(), alone.begin() + static_cast<ptrdiff_t>(matrix),
                               data.begin() + static_cast<ptrdiff_t>(head * matrix)))
            << head;
}

TEST(CaseValues, OfGradientsAreWhatTheirKindsSay) {
    Problem problem(1, 64, 32);
    problem.operation = &kBackward;
    const auto gradients = [&](CaseKind kind) {
        std::vector<float> data = values({problem, kind, 1});
        return std::vector<float>(data.begin() + 3 * 64 * 32, data.end());
    };
    std::set<uint32_t> zeros;
    for (const float x : gradients(CaseKind::gzero)) zeros.insert(bits_of(x));
    EXPECT_EQ(zeros, (std::set<uint32_t>{0, 0x80000000u}));
    for (const float x : gradients(CaseKind::gtiny)) EXPECT_LT(std::fabs(x), std::numeric_limits<float>::min());
    float most = 0;
    for (const float x : gradients(CaseKind::glimit)) most = std::max(most, std::fabs(x));
    EXPECT_GT(64.0 * 32 * 3 * double{most}, 0x1p122);
    EXPECT_LE(64.0 * 32 * 3 * double{most}, 0x1p124);
}

// What a kind says of Q, K and V it says of nothing else.
TEST(CaseValues, OfOtherOperandsAreUniform) {
    Problem problem(1, 6, 4);
    problem.operation = &kBackward;
    const std::vector<float> uniform = values({problem, CaseKind::uniform, 1});
    const ptrdiff_t gradient = 3 * 6 * 4;
    for (const CaseKind kind :
         {CaseKind::normal, CaseKind::brink, CaseKind::threshold, CaseKind::digits, CaseKind::fading}) {
        const std::vector<float> data = values({problem, kind, 1});
        EXPECT_TRUE(std::equal(uniform.begin() + gradient, uniform.end(), data.begin() + gradient));
        EXPECT_FALSE(std::equal(uniform.begin(), uniform.begin() + gradient, data.begin()));
    }
}

TEST(CaseValues, ThresholdMeetsEveryBorderToTheBit) {
    const Problem problem{2, 160, 64};
    const std::vector<float> data = values({problem, CaseKind::threshold, 1});
    const Scale scale = scale_for(problem.dim);
    std::map<float, std::set<int>> first_tiles; // of each border, on which sides of it a first tile's largest score is
    std::set<int> raises;                       // likewise, of later tiles and what raises M = 100
    std::set<int> floors;                       // and of keys and the deepest weight
    for (int64_t row = 0; row < problem.batches * problem.dim; ++row) {
        const float* q = data.data() + (row / problem.dim * 3 * problem.queries + row % problem.dim) * problem.dim;
        const float* k = data.data() + (row / problem.dim * 3 + 1) * problem.queries * problem.dim;
        const auto score = [&](int64_t key) { return q[row % problem.dim] * k[key * problem.dim + row % problem.dim]; };
        EXPECT_EQ(std::count(q, q + problem.dim, 0.0f), problem.dim - 1);
        const auto side = [](float x, float border) { return x < border ? -1 : x > border ? 1 : 0; };
        float first = -HUGE_VALF;
        for (int64_t key = 0; key < 32; ++key) first = std::max(first, score(key));
        for (const float border : {-8.0f, 72.0f, -0x1p21f, 0x1p21f})
            if (std::fabs(first * scale.c / border - 1) < 1e-5f)
                first_tiles[border].insert(side(first * scale.c, border));
        for (const int64_t key : {37, 69}) {
            const float most = 172.0f * scale.inv_c;
            if (std::fabs(score(key) / most - 1) < 1e-5f && std::fabs(first * scale.c - 100) < 1)
                raises.insert(side(score(key), most));
            const float least = -120.0f * scale.inv_c;
            if (std::fabs(score(key) / least - 1) < 1e-5f) floors.insert(side(score(key), least));
        }
    }
    const std::set<int> all = {-1, 0, 1};
    for (const float border : {-8.0f, 72.0f, -0x1p21f, 0x1p21f}) EXPECT_EQ(first_tiles[border], all) << border;
    EXPECT_EQ(raises, all);
    EXPECT_EQ(floors, all);
}

TEST(CaseValues, DigitsMeetsTheBordersOfFixed) {
    const Problem problem{2, 200, 64};
    const std::vector<float> data = values({problem, CaseKind::digits, 1});
    const float factor = fixed::query_factor(scale_for(problem.dim).c);
    std::set<int> bits;                  // of fraction
    std::set<int> on_quarters;           // whether a tile's largest score is on one, or one step below or above
    std::map<int, std::set<bool>> turns; // of rows of Q and tiles of K and V: which side of the largest number
    const auto note_turn = [&](int which, float scaled) {
        const uint32_t mantissa = bits_of(scaled) & 0x7fffffu;
        if (mantissa > 0x7efef0 && mantissa < 0x7eff10) turns[which].insert(mantissa > 0x7efefe);
    };
    for (int64_t batch = 0; batch < problem.batches; ++batch) {
        const float* q = data.data() + static_cast<size_t>(batch) * problem.batch_input_floats();
        const float* k = q + problem.batch_output_floats();
        const float* v = k + problem.batch_output_floats();
        const auto largest_of = [&](const float* x, int64_t rows) {
            float most = 0;
            for (int64_t i = 0; i < rows * problem.dim; ++i) most = std::max(most, std::fabs(x[i]));
            return most;
        };
        for (int64_t tile = 0; tile < 3; ++tile) {
            note_turn(1, largest_of(k + tile * 64 * problem.dim, 64) * fixed::kWiden);
            note_turn(2, largest_of(v + tile * 64 * problem.dim, 64) * fixed::kWiden);
        }
        const int k_exponent = fixed::tile_exponent(largest_of(k, 64));
        for (int64_t row = 0; row < 127; ++row) {
            const float scaled = fixed::scaled_query(largest_of(q + row * problem.dim, 1), factor);
            if (scaled == 0) continue;
            note_turn(0, scaled);
            const int q_exponent = fixed::exponent_for(scaled);
            bits.insert(q_exponent + k_exponent - 24);
            if (row >= 64) continue; // Q is a power of two: x is the key's number over 4
            const float key = k[5 * problem.dim + row];
            const int32_t x = fixed::quantised(key, fixed::tile_factors(k_exponent)) >> 2;
            const int32_t quarter = 1 << std::max(0, q_exponent + k_exponent - 26);
            if (quarter == 1) continue;
            const int32_t over = (x % quarter + quarter) % quarter;
            if (over <= 1 || over == quarter - 1) on_quarters.insert(over <= 1 ? over : -1);
        }
    }
    for (const int which : {0, 1, 2}) EXPECT_EQ(turns[which], (std::set<bool>{false, true})) << "QKV"[which];
    for (const int wanted : {-2, -1, 0, 1, 2, 22, 23, 24, 59}) EXPECT_EQ(bits.count(wanted), 1u) << wanted;
    EXPECT_EQ(on_quarters, (std::set<int>{-1, 0, 1}));
}

} // namespace
} // namespace hw4
