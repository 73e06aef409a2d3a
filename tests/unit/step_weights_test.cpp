// A model's tensors, their first values, and the learning rate.
#include "src/step/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "src/step/configuration.h"
#include "src/step/model.h"
#include "src/step/philox.h"

namespace hw4::step {
namespace {

// Values from the authors' kat_vectors (Random123).
TEST(Philox, GivesTheKnownAnswers) {
    EXPECT_EQ(philox({0, 0, 0, 0}, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~uint64_t{0}),
              (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
              (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

Parameter matrix(int64_t rows, int64_t columns, int64_t parts, Initial initial) {
    return {"any", rows, columns, initial, parts, 0};
}

std::vector<float> drawn(const Parameter& parameter, size_t place = 3, uint64_t seed = 7) {
    std::vector<float> weights(parameter.count());
    draw_weights(parameter, place, seed, 0, weights.size(), weights.data());
    return weights;
}

// The moments of the normal distribution cut at 3.
void expect_normal(const std::vector<float>& weights, double deviation) {
    double sum = 0;
    double squares = 0;
    double most = 0;
    size_t beyond_two = 0;
    for (const float weight : weights) {
        const double x = weight / deviation;
        sum += x;
        squares += x * x;
        most = std::max(most, std::fabs(x));
        beyond_two += std::fabs(x) > 2 ? 1 : 0;
    }
    const auto count = static_cast<double>(weights.size());
    EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
    EXPECT_NEAR(squares / count, 0.97334, 7 / std::sqrt(count));
    EXPECT_NEAR(static_cast<double>(beyond_two) / count, 0.04293, 1 / std::sqrt(count));
    EXPECT_LE(most, 3.0000001);
    EXPECT_GT(most, 2.9);
}

TEST(StepWeights, AreNormalWithTheDeviationOfTheirOwnMatrix) {
    expect_normal(drawn(matrix(300, 100, 1, Initial::scaled)), std::sqrt(2.0 / 400));
    expect_normal(drawn(matrix(300, 100, 3, Initial::scaled)), std::sqrt(2.0 / 200));
    expect_normal(drawn(matrix(300, 100, 1, Initial::normal)), 1);
}

TEST(StepWeights, AreTheSameInPieces) {
    const Parameter parameter = matrix(37, 41, 1, Initial::scaled); // an odd number of weights
    const std::vector<float> whole = drawn(parameter);
    std::vector<float> pieces(whole.size());
    for (size_t first = 0; first < pieces.size(); first += 100)
        draw_weights(parameter, 3, 7, first, std::min<size_t>(100, pieces.size() - first), pieces.data() + first);
    EXPECT_EQ(pieces, whole);
}

TEST(StepWeights, DependOnSeedAndPlace) {
    const Parameter parameter = matrix(20, 20, 1, Initial::scaled);
    EXPECT_NE(drawn(parameter, 3, 7), drawn(parameter, 4, 7));
    EXPECT_NE(drawn(parameter, 3, 7), drawn(parameter, 3, 8));
    EXPECT_NE(drawn(parameter, 3, 7), drawn(parameter, 3, 7 + (uint64_t{1} << 32)));
}

int64_t count_of(const Model& model) {
    int64_t count = 0;
    for (const Parameter& parameter : parameters_of(model).list) count += static_cast<int64_t>(parameter.count());
    return count;
}

TEST(StepModel, PresetsHaveTheCoursesNumbersOfParameters) {
    const std::map<std::string, int64_t> expected = {
        {"small", 128625408}, {"medium", 423183360}, {"large", 969411840}, {"xl", 1998235200},
        {"2.7B", 3406809600}, {"71m", 71315968},     {"tiny", 164160},
    };
    for (const Preset& preset : presets()) {
        EXPECT_EQ(count_of(preset.model), expected.at(preset.name)) << preset.name;
        EXPECT_EQ(why_no_model(preset.model), "") << preset.name;
    }
    EXPECT_EQ(presets().size(), expected.size());
}

TEST(StepModel, TensorsBeginAtSegmentsOneAfterTheOther) {
    const Parameters parameters = parameters_of({12, 20, 2, 3, 11});
    size_t end = 0;
    for (const Parameter& parameter : parameters.list) {
        EXPECT_EQ(parameter.first, (end + kSegment - 1) / kSegment * kSegment) << parameter.name;
        end = parameter.first + parameter.count();
    }
    EXPECT_EQ(parameters.floats, (end + kSegment - 1) / kSegment * kSegment);
}

TEST(StepSchedule, RisesForATenthAndFallsToATenth) {
    Configuration settings;
    settings.steps = 45; // 4 of them in the warm-up
    settings.learning_rate = 0.5;
    EXPECT_EQ(learning_rate_of(settings, 1), 0.125);
    EXPECT_EQ(learning_rate_of(settings, 4), 0.5);
    for (int64_t step = 5; step <= 45; ++step) {
        const double angle = std::acos(-1.0) * static_cast<double>(step - 4) / 41;
        EXPECT_NEAR(learning_rate_of(settings, step), 0.05 + 0.225 * (1 + std::cos(angle)), 1e-15) << step;
    }
    EXPECT_NEAR(learning_rate_of(settings, 45), 0.05, 1e-15);
}

TEST(StepSchedule, FewStepsHaveNoWarmUp) {
    Configuration settings;
    settings.steps = 2;
    EXPECT_NEAR(learning_rate_of(settings, 1), 5.5e-4, 1e-18);
    EXPECT_NEAR(learning_rate_of(settings, 2), 1e-4, 1e-18);
}

} // namespace
} // namespace hw4::step
