// What is said of many samples in few numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace hw4::bench {

// Of values in any order, between the two nearest where it falls there. There must be one.
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

// From the 20th to the 80th of a hundred, as a share of the median: one sample far off leaves no trace.
inline double spread(const std::vector<double>& values) {
    const double middle = median(values);
    return middle > 0 ? (quantile(values, 0.8) - quantile(values, 0.2)) / middle : 0;
}

} // namespace hw4::bench
