// When K and V are prepared: all heads before the products, or most of them beside.
//
// Beside: the whole card prepares the heads that are needed first, then some multiprocessors prepare the others, in the
// order in which they are needed, while the rest begin with the products; who has nothing left to prepare joins them.
// The whole card at once waits for memory while it prepares, some multiprocessors hardly do, so that less is taken from
// the products. A head's products begin when it is ready, and bytes are the same.
// No CUDA here, so that it can be tested anywhere.
#pragma once

#include <cstdint>
#include <optional>

namespace hw4::gpu::fixed_point {

// At d = 64 with two digits. It was tried at d = 32 and 128 and with three digits too, where it does not pay.
template <class Rules, int kDim>
constexpr bool kMayPrepareBeside = Rules::kDigits == 2 && kDim == 64;

// What a launch is, as far as this is concerned.
struct PrepassWork {
    int64_t head_tiles;      // of all heads
    int64_t job_tiles;       // of all jobs (shares.h), each of which looks at a head
    int64_t multiprocessors; // each of which is at work on one job
};

// Multiprocessors that prepare heads while others compute.
struct Preparers {
    int64_t multiprocessors;
    int64_t job_tiles; // that each of the others does meanwhile
};

// None where all is better prepared before.
inline std::optional<Preparers> preparers_for(const PrepassWork& work) {
    constexpr double kCost = 0.55; // of a tile of a head, for one multiprocessor, in tiles of a job; measured
    constexpr double kLead = 1.9;  // so many times as fast as heads are needed: when the first ones are, few are ready
    constexpr double kMostReuse = 8; // beyond, what is prepared is too little of all
    const double reuse = static_cast<double>(work.job_tiles) / static_cast<double>(work.head_tiles);
    if (reuse > kMostReuse) return std::nullopt;
    const double for_each_other = kLead * kCost / reuse;
    const double share = for_each_other / (1 + for_each_other);
    const auto count = static_cast<int64_t>(share * static_cast<double>(work.multiprocessors)) + 1;
    return Preparers{count,
                     static_cast<int64_t>(kCost * static_cast<double>(work.head_tiles) / static_cast<double>(count))};
}

} // namespace hw4::gpu::fixed_point
