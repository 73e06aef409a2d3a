#include "src/step/configuration.h"
#include "src/step/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

namespace hw4::step {
namespace {

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
