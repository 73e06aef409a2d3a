// How often to launch a kernel to time it: short ones many times in a sample, since the two events around it cost
// microseconds; slow ones in few samples, since they differ little. No CUDA here, so that the rules can be tested
// anywhere. report/torch_cell.py has the same rules, for PyTorch.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace hw4::gpu {

constexpr double kWarmUpSeconds = 0.1;  // of launches before the first sample: the clocks rise
constexpr double kSampleSeconds = 0.01; // that a sample lasts, where the launches in it are not given
constexpr int kMostLaunches = 1000;     // in a sample
constexpr double kSlowSample = 0.05;    // seconds; slower samples are fewer
constexpr int kLeastRuns = 3;           // samples, however slow

struct SampleRequest {
    int runs = 20;
    int launches = 1; // in a sample; 0: by launches_for
};

struct Timing {
    int launches;                // in a sample
    std::vector<double> seconds; // every sample: seconds of one launch, in the order measured
};

// sample(k) takes a sample of k launches and returns the seconds of one. Those of the fastest, all being one by one.
// The first does not count: it may bring code to the card, or have a library choose its plan, for as long as all others
// together.
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

// Launches in a sample of a kernel that takes `launch_seconds`.
inline int launches_for(double launch_seconds) {
    if (launch_seconds <= 0) return kMostLaunches;
    return static_cast<int>(std::clamp(std::ceil(kSampleSeconds / launch_seconds), 1.0, double{kMostLaunches}));
}

// Samples of `sample_seconds` each when `runs` are asked for: fewer slow ones, in the time of `runs` of kSlowSample.
inline int runs_for(double sample_seconds, int runs) {
    if (sample_seconds <= kSlowSample) return runs;
    const int fitting = static_cast<int>(runs * kSlowSample / sample_seconds);
    return std::min(runs, std::max(kLeastRuns, fitting));
}

} // namespace hw4::gpu
