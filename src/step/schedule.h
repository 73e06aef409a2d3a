// The learning rate of a step: it rises by equal parts over the first tenth of all steps, rounded down, and falls from
// there as a cosine to a tenth of the highest at the last. In doubles by + - * / alone.
#pragma once

#include "src/contracts/rope.h"
#include "src/step/configuration.h"

namespace hw4::step {

// `step` counts from 1.
inline double learning_rate_of(const Configuration& settings, int64_t step) {
    const int64_t warm_up = settings.steps / 10;
    if (step <= warm_up) return settings.learning_rate * static_cast<double>(step) / static_cast<double>(warm_up);
    const double share = static_cast<double>(step - warm_up) / static_cast<double>(settings.steps - warm_up);
    const double lowest = settings.learning_rate * 0.1;
    double sine = 0;
    double cosine = 0;
    sine_cosine(0x1.921fb54442d18p+1 * share, sine, cosine); // pi
    return lowest + 0.5 * (1 + cosine) * (settings.learning_rate - lowest);
}

} // namespace hw4::step
