// The number of launches to time, and the statistics of samples. A sample of a short kernel contains many launches,
// because the two events around it cost microseconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace hw4::bench {

constexpr double kWarmUpSeconds = 0.1;  // launches before the first sample, to raise the clocks
constexpr double kSampleSeconds = 0.01; // duration of a sample, where its launches are not given
constexpr int kMostLaunches = 1000;     // per sample
constexpr int kLeastRuns = 3;           // samples, even if slow

// sample(k) takes a sample of k launches and returns the seconds per launch. Returns the time of the fastest launch.
// The first launch does not count: it may load code onto the GPU, or let a library choose its plan, which may take as
// long as all others together.
template <class Sample>
double warm_up(const Sample& sample) {
    sample(1);
    double least = sample(1);
    for (double busy = least; busy < kWarmUpSeconds;) {
        const double seconds = sample(1);
        busy += seconds;
        least = std::min(least, seconds);
    }
    return least;
}

// The number of launches per sample for a kernel that takes `launch_seconds`.
inline int launches_for(double launch_seconds) {
    if (launch_seconds <= 0) return kMostLaunches;
    return static_cast<int>(std::clamp(std::ceil(kSampleSeconds / launch_seconds), 1.0, double{kMostLaunches}));
}

// The values may be in any order, but not empty. Interpolates between the two nearest.
inline double quantile(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(std::floor(place));
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - std::floor(place)) * (values[above] - values[below]);
}

inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

inline double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

inline double deviation(const std::vector<double>& values) {
    const double centre = mean(values);
    double squares = 0;
    for (const double value : values) squares += (value - centre) * (value - centre);
    return values.size() < 2 ? 0 : std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// The range from the 20th to the 80th percentile, relative to the median: single outliers do not count.
inline double spread(const std::vector<double>& values) {
    const double middle = median(values);
    return middle > 0 ? (quantile(values, 0.8) - quantile(values, 0.2)) / middle : 0;
}

} // namespace hw4::bench
