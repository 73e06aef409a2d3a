// When K and V are prepared: all heads before the products, or most of them beside.
//
// Beside: the whole card prepares the heads that are needed first, then some multiprocessors prepare the others, in the
// order in which they are needed, while the rest begin with the products; who has nothing left to prepare joins them.
// The whole card at once waits for memory while it prepares, some multiprocessors hardly do, so that less is taken from
// the products. A head's products begin when it is ready, and bytes are the same.
// No CUDA here, so that it can be tested anywhere.
#pragma once

#include <cstdint>

namespace hw4::gpu::fixed_point {

// At d = 64 with two digits. It was tried at d = 32 and 128 and with three digits too, where it does not pay.
template <class Rules, int kDim>
constexpr bool kMayPrepareBeside = Rules::kDigits == 2 && kDim == 64;

// Heads that are prepared while others are looked at.
struct PrepassWork {
    double jobs;   // for each head (shares.h); one that takes half of the others' time is half a job
    int64_t tiles; // of a head, and of a job, which looks at all of them
};

// In the time that a job takes for a tile: how long one multiprocessor takes to prepare a tile of a head, of whichever
// elements. Measured.
inline double preparing_time(const PrepassWork& work) {
    constexpr double kPrepare = 0.78;
    constexpr double kBetweenJobs = 1.6; // what a job begins and ends with
    return kPrepare / (1 + kBetweenJobs / static_cast<double>(work.tiles));
}

// Of so many multiprocessors, those that prepare heads while the others compute.
inline int64_t preparers_for(const PrepassWork& work, int64_t multiprocessors) {
    constexpr double kLead = 1.6; // so many times as fast as heads are needed: when the first ones are, few are ready
    const double for_each_other = kLead * preparing_time(work) / work.jobs;
    return static_cast<int64_t>(for_each_other / (1 + for_each_other) * static_cast<double>(multiprocessors)) + 1;
}

} // namespace hw4::gpu::fixed_point
