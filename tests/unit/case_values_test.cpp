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

constexpr double kLog2E = 1.4426950408889634;

std::vector<float> values(const CaseRecipe& recipe) {
    std::vector<float> data(static_cast<size_t>(recipe.problem.batches) * recipe.problem.batch_input_floats());
    fill_case_values(recipe, 0, data.size(), data.data());
    return data;
}

// A generated case and the exact exponents of its softmax.
class Case {
public:
    Case(const Distribution& distribution, const Problem& problem, uint64_t seed = 1)
        : problem_(problem), data_(values({problem, distribution, seed})) {}

    int64_t tokens() const { return problem_.queries; }
    const std::vector<float>& all() const { return data_; }
    // Matrix 0, 1, 2 (Q, K, V) of the first batch.
    const float* row(int matrix, int64_t i) const {
        return data_.data() + static_cast<size_t>(matrix) * problem_.batch_output_floats() + i * problem_.dim;
    }
    std::vector<float> matrix(int m) const { return {row(m, 0), row(m, problem_.queries)}; }

    // Base-2 exponents of query i against every key of the first batch.
    std::vector<double> exponents(int64_t i) const {
        std::vector<double> found;
        for (int64_t j = 0; j < problem_.queries; ++j)
            found.push_back(std::inner_product(row(0, i), row(0, i) + problem_.dim, row(1, j), 0.0) * kLog2E /
                            std::sqrt(static_cast<double>(problem_.dim)));
        return found;
    }

private:
    Problem problem_;
    std::vector<float> data_;
};

double largest(const std::vector<double>& x) { return *std::max_element(x.begin(), x.end()); }
double smallest(const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); }

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

TEST(CaseKinds, AreRefusedInOneLine) {
    const std::pair<const char*, const char*> refusals[] = {
        {"", "unknown kind ''"},
        {"Uniform", "unknown kind 'Uniform'"},
        {"uniform ", "unknown kind 'uniform '"},
        {"climbing", "unknown kind 'climbing'"},
        {"odd:3", "unknown kind 'odd'"},
        {"uniform:3", "kind 'uniform:3': uniform takes no number"},
        {"low:", "kind 'low:': low takes no number"},
        {"normal:", "kind 'normal:': need a number from 0 to 1e+09 after the colon"},
        {"normal:x", "kind 'normal:x': need a number from 0 to 1e+09 after the colon"},
        {"stray:-1", "kind 'stray:-1': need a number from 0 to 1e+09 after the colon"},
        {"sink:1.5", "kind 'sink:1.5': need a number from 0 to 1 after the colon"},
    };
    for (const auto& [text, wanted] : refusals) {
        try {
            distribution_of(text);
            ADD_FAILURE() << text;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            EXPECT_STREQ(error.what(), wanted);
        }
    }
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

TEST(CaseValues, UniformIsEvenFromMinusThreeToThree) {
    const std::vector<float> data = values({{1, 1000, 100}, CaseKind::uniform, 4});
    const auto [low, high] = std::minmax_element(data.begin(), data.end());
    EXPECT_GE(*low, -3.0f);
    EXPECT_LT(*high, 3.0f);
    EXPECT_LT(*low, -2.999f);
    EXPECT_GT(*high, 2.999f);
    const auto n = static_cast<double>(data.size());
    const double mean = std::accumulate(data.begin(), data.end(), 0.0) / n;
    const double square = std::inner_product(data.begin(), data.end(), data.begin(), 0.0) / n;
    const double neighbours = std::inner_product(data.begin() + 1, data.end(), data.begin(), 0.0) / n;
    EXPECT_NEAR(mean, 0.0, 0.02); // six standard deviations
    EXPECT_NEAR(square, 3.0, 0.03);
    EXPECT_NEAR(neighbours, 0.0, 0.035);
}

TEST(CaseValues, EqualHasTheSameScoreForAllKeys) {
    const Case c(CaseKind::equal, {1, 70, 64});
    for (int64_t i = 0; i < c.tokens(); ++i) {
        const std::vector<double> e = c.exponents(i);
        EXPECT_EQ(smallest(e), largest(e));
        EXPECT_NE(e[0], 0.0);
    }
}

TEST(CaseValues, NegativeHasOnlyNegativeScores) {
    const Case c(CaseKind::negative, {1, 100, 32});
    for (int64_t i = 0; i < c.tokens(); ++i) EXPECT_LT(largest(c.exponents(i)), 0.0);
}

TEST(CaseValues, SpreadHasWeightsFarApart) {
    for (const int64_t dim : {64, 128}) {
        const Case c(CaseKind::spread, {1, 300, dim});
        for (int64_t i = 0; i < c.tokens(); ++i) {
            const std::vector<double> e = c.exponents(i);
            EXPECT_GT(largest(e), 100.0);
            EXPECT_LT(smallest(e), -100.0);
        }
    }
}

TEST(CaseValues, DenormalHasDenormalQueriesAndValues) {
    const Case c(CaseKind::denormal, {1, 100, 64});
    const auto denormal = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL; };
    for (const int m : {0, 2}) {
        const std::vector<float> x = c.matrix(m);
        EXPECT_TRUE(std::all_of(x.begin(), x.end(), denormal)) << m;
        const auto negative = std::count_if(x.begin(), x.end(), [](float v) { return std::signbit(v); });
        EXPECT_NEAR(static_cast<double>(negative), 3200.0, 240.0);
    }
    const std::vector<float> k = c.matrix(1);
    EXPECT_TRUE(std::none_of(k.begin(), k.end(), denormal));
}

TEST(CaseValues, DominantHasOneKeyAboveTheSumOfTheOthers) {
    const Case c(CaseKind::dominant, {1, 1030, 64});
    for (int64_t i = 0; i < 100; ++i) {
        std::vector<double> e = c.exponents(i);
        const double top = std::exchange(e[515], -1e9);
        double others = 0;
        for (const double x : e) others += std::exp2(x - top);
        EXPECT_LT(others, 0x1p-24);
    }
}

TEST(CaseValues, VzeroHasZerosOfBothSigns) {
    const std::vector<float> v = Case(CaseKind::vzero, {1, 100, 30}).matrix(2);
    int zeros[2] = {};
    for (const float x : v)
        if (x == 0.0f) ++zeros[std::signbit(x)];
    EXPECT_NEAR(zeros[0], 1000, 160);
    EXPECT_NEAR(zeros[1], 1000, 160);
}

TEST(CaseValues, HugeNeedsAnOriginInEveryRow) {
    const Case c(CaseKind::huge, {1, 300, 64});
    for (const int m : {0, 1}) {
        const std::vector<float> x = c.matrix(m);
        EXPECT_LE(*std::max_element(x.begin(), x.end()), 1e4f);
        EXPECT_GE(*std::min_element(x.begin(), x.end()), -1e4f);
    }
    for (int64_t i = 0; i < c.tokens(); ++i) EXPECT_GT(largest(c.exponents(i)), 0x1p24);
}

TEST(CaseValues, FadingEndsInDenormals) {
    const Case c(CaseKind::fading, {1, 2100, 32});
    for (int64_t j = 0; j < c.tokens(); ++j)
        for (int64_t x = 0; x < 32; ++x) EXPECT_EQ(c.row(2, j)[x] == 0.0f, j >= 1050) << j;
    // Against the last reference the sums of the first half are denormal: less than a float's normal numbers, but
    // not so little that every output is zero and shows nothing.
    int denormal = 0;
    int raised = 0;
    for (int64_t i = 0; i < 50; ++i) {
        const std::vector<double> e = c.exponents(i);
        raised += largest(e) > kHeadroom;
        double weights = 0;
        double sum = 0;
        for (int64_t j = 0; j < c.tokens(); ++j) {
            const double weight = std::exp2(e[static_cast<size_t>(j)] - largest(e));
            weights += weight;
            sum += weight * static_cast<double>(c.row(2, j)[0]);
        }
        const double output = std::fabs(sum / weights);
        EXPECT_LT(output, 0x1p-120);
        denormal += output > 0x1p-149 && output < 0x1p-126;
    }
    EXPECT_GT(denormal, 40);
    EXPECT_GT(raised, 25);
}

TEST(CaseValues, BrinkCreepsPastTheReachOfIntegers) {
    const Problem problem{2, 2100, 16};
    std::vector<float> data(2 * problem.batch_input_floats());
    fill_case_values({problem, CaseKind::brink, 7}, 0, data.size(), data.data());
    const double c = scale_for(problem.dim).c;
    for (const int64_t batch : {0, 1}) {
        const float* q = data.data() + static_cast<size_t>(batch) * problem.batch_input_floats();
        const float* k = q + problem.batch_output_floats();
        const auto exponent = [&](int64_t key) { return double{q[0]} * double{k[key * problem.dim]} * c; };
        const double brink = batch == 0 ? double{kIntegerReach} : -double{kIntegerReach};
        EXPECT_LT(exponent(0), brink - kHeadroom);
        EXPECT_GT(exponent(2099), brink + kHeadroom / 2);
        for (int64_t key = 0; key + kKeyTile < problem.queries; ++key)
            EXPECT_NEAR(exponent(key + kKeyTile) - exponent(key), 3.2, 4.5) << batch << " " << key;
    }
}

// The rows and, of each, the scores as f32 takes them: one product.
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

TEST(CaseValues, ClimbPassesTheReachOfIntegersTwice) {
    const Case c(CaseKind::climb, {1, 3000, 64});
    for (int64_t i = 0; i < 50; ++i) {
        const std::vector<double> e = c.exponents(i);
        const double first_tile = *std::max_element(e.begin(), e.begin() + kKeyTile);
        EXPECT_NEAR(first_tile, -1e8, 0.2e8);
        EXPECT_NEAR(largest(e), 1e8, 0.2e8);
        const auto ordinary = std::count_if(e.begin(), e.end(), [](double x) { return std::fabs(x) < kIntegerReach; });
        EXPECT_GT(ordinary, 4 * kKeyTile);
    }
}

// The share of numbers within one standard deviation and beyond two and three is that of the normal distribution.
TEST(CaseValues, NormalHasTheDeviationThatItsNumberSays) {
    for (const double deviation : {1.0, 3.5, 1e6}) {
        const std::vector<float> data = values({{1, 1000, 100}, {CaseKind::normal, deviation}, 4});
        const auto n = static_cast<double>(data.size());
        const double mean = std::accumulate(data.begin(), data.end(), 0.0) / n / deviation;
        const double square =
            std::inner_product(data.begin(), data.end(), data.begin(), 0.0) / n / (deviation * deviation);
        const double neighbours =
            std::inner_product(data.begin() + 1, data.end(), data.begin(), 0.0) / n / (deviation * deviation);
        EXPECT_NEAR(mean, 0.0, 0.011); // six standard deviations
        EXPECT_NEAR(square, 1.0, 0.016);
        EXPECT_NEAR(neighbours, 0.0, 0.011);
        const auto beyond = [&](double most) {
            return static_cast<double>(std::count_if(
                       data.begin(), data.end(), [&](float x) { return std::fabs(double{x}) > most * deviation; })) /
                   n;
        };
        EXPECT_NEAR(beyond(1), 0.317, 0.01);
        EXPECT_NEAR(beyond(2), 0.0455, 0.005);
        EXPECT_NEAR(beyond(3), 0.0027, 0.001);
    }
}

TEST(CaseValues, StrayIsNormalButForEvery500thQuery) {
    const Problem problem{1, 1100, 64};
    const std::vector<float> plain = values({problem, CaseKind::normal, 1});
    for (const auto& [factor, beyond] : {std::pair<double, double>{60, kHeadroom}, {1e6, kIntegerReach}}) {
        const Case c({CaseKind::stray, factor}, problem);
        int64_t strays = 0;
        for (int64_t row = 0; row < 3 * problem.queries; ++row) {
            const bool is_stray = row == 0 || row == 500 || row == 1000;
            for (int64_t x = 0; x < problem.dim; ++x) {
                const auto at = static_cast<size_t>(row * problem.dim + x);
                EXPECT_FLOAT_EQ(c.all()[at], plain[at] * (is_stray ? static_cast<float>(factor) : 1.0f)) << row;
            }
            if (!is_stray) continue;
            ++strays;
            const std::vector<double> e = c.exponents(row);
            EXPECT_GT(*std::max_element(e.begin(), e.begin() + kKeyTile), beyond) << row;
        }
        EXPECT_EQ(strays, 3);
    }
}

TEST(CaseValues, SinkIsNormalButForOneKeyOfEachHead) {
    Problem problem(2, 5, 4);
    problem.heads = 4;
    problem.kv_heads = 2;
    const std::vector<std::tuple<double, int64_t, int64_t>> places = {// number, keys, the key
                                                                      {0, 6, 0}, {0.5, 6, 3}, {0.5, 7, 3}, {1, 6, 5},
                                                                      {0, 1, 0}, {0.5, 1, 0}, {1, 1, 0}};
    for (const auto& [place, keys, key] : places) {
        problem.keys = keys;
        const std::vector<float> plain = values({problem, CaseKind::normal, 1});
        const std::vector<float> data = values({problem, {CaseKind::sink, place}, 1});
        for (size_t i = 0; i < data.size(); ++i) {
            const int64_t row = static_cast<int64_t>(i) / problem.dim % problem.batch_input_rows();
            const int64_t of_keys = row - problem.heads * problem.queries;
            const bool is_sink = of_keys >= 0 && of_keys < problem.kv_heads * keys && of_keys % keys == key;
            EXPECT_FLOAT_EQ(data[i], plain[i] * (is_sink ? 100.0f : 1.0f)) << place << " of " << keys << ": " << i;
        }
    }
}

TEST(CaseValues, LowHasScoresNearMinus112) {
    for (const int64_t dim : {1, 2, 32, 33, 64, 128, 256, 3000}) {
        const Case c(CaseKind::low, {1, 300, dim});
        for (int64_t i = 0; i < 5; ++i) {
            const std::vector<double> e = c.exponents(i);
            EXPECT_LT(largest(e), -105.0) << dim;
            EXPECT_GT(smallest(e), -120.0) << dim;
            EXPECT_GT(largest(e) - smallest(e), 0.5) << dim;
        }
    }
}

} // namespace
} // namespace hw4
