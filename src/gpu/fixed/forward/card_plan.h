// How a launch of fixed or fixed16 is divided among the card's multiprocessors: jobs of query rows, the pre-pass that
// prepares K and V, and shares of both. No CUDA here, so that it can be tested anywhere.
#pragma once

#include <cstdint>
#include <optional>

#include "src/base/inline.h"
#include "src/gpu/fixed/forward/late_shares.h"

namespace hw4::gpu::fixed_point {

// ---- How many jobs (shares.h) a launch has, and whether groups of rows share a block

constexpr int kGroupRows = 64; // query rows of a group

// Jobs of a unit: each as many rows as a block's groups take; the last may have fewer.
HW4_INLINE int64_t jobs_for(int64_t queries, int groups) {
    return (queries + groups * kGroupRows - 1) / (groups * kGroupRows);
}

// Groups that a unit's jobs have room for and its rows do not fill: of the last job or, under a mask, of the first,
// which has the fewest tiles.
HW4_INLINE int64_t missing_groups(int64_t queries, int groups) {
    return jobs_for(queries, groups) * groups - jobs_for(queries, 1);
}

// Groups of a block share its tiles, and so wait for the slowest of them; and the last job of a unit may leave some
// of them without rows. That pays where sequences are long, where few rows are missing, and where there is a job for
// every multiprocessor. What it brought against groups apart when it was chosen: at d = 64, N = 256, which lacks a
// third, -5 %; N = 512 and 1024, which lack a ninth of theirs, +7 and +6 %; at d = 32, N = 512, which lacks none, +12
// %.
inline bool takes_joint(int64_t units, int64_t keys, int64_t queries, int groups, int multiprocessors) {
    constexpr int64_t kLongSequence = 512;
    const int64_t jobs = jobs_for(queries, groups);
    const int64_t missing = jobs * groups * kGroupRows - queries;
    return keys >= kLongSequence && missing <= queries / 8 && units * jobs >= multiprocessors;
}

// Whether wgmma_whole.cuh is better for such heads than groups apart: its jobs have three groups, and not too many of
// them may be without rows, at d = 32 less than a third, at 64 a third too. What it took of the time of groups apart
// when it was chosen, for many heads, at 64: N = 64 1.29, 100 and 128 0.94, 130 0.83, 192 0.84, 256 0.97, 384 0.81, 512
// 0.83, 1000 0.87, 1800 0.87; at 32: N = 64 1.44, 128 1.02, 160 0.84, 256 1.08, 320 0.93, 512 0.93, 1000 0.92.
inline bool takes_whole(int64_t keys, int64_t queries, int64_t dim) {
    constexpr int kGroups = 3;
    constexpr int64_t kFewKeys = 64; // up to which it was not tried
    const int64_t lacking = kGroups * missing_groups(queries, kGroups);
    const int64_t places = kGroups * jobs_for(queries, kGroups);
    return keys > kFewKeys && (dim == 64 ? lacking <= places : lacking < places);
}

// ---- When K and V are prepared: all heads before the products, or most of them beside.
//
// Beside: the whole card prepares the heads that are needed first, then some multiprocessors prepare the others, in the
// order in which they are needed, while the rest begin with the products; those with nothing left to prepare join them.
// The whole card at once waits for memory while it prepares, some multiprocessors hardly do, so that less is taken from
// the products. A head's products begin when it is ready, and bytes are the same.

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

// How many of the multiprocessors prepare heads while the others compute.
inline int64_t preparers_for(const PrepassWork& work, int64_t multiprocessors) {
    constexpr double kLead = 1.6; // so many times as fast as heads are needed: when the first ones are, few are ready
    const double for_each_other = kLead * preparing_time(work) / work.jobs;
    return static_cast<int64_t>(for_each_other / (1 + for_each_other) * static_cast<double>(multiprocessors)) + 1;
}

// ---- The work of a launch without a mask, that of the pre-pass too, where some of it is done beside the products

// On so many multiprocessors, each with a block of so many groups.
struct CardLaunch {
    int64_t units;
    int64_t heads; // of K and V, each of as many units
    int64_t queries;
    int64_t tiles; // of a head
    int groups;
    int64_t multiprocessors;

    EqualJobs jobs() const {
        const int64_t of_unit = jobs_for(queries, groups);
        const double last = of_unit == 1 ? 1 : time_with(groups - missing_groups(queries, groups)); // of one, all are
        return {units, static_cast<uint32_t>(of_unit), static_cast<unsigned>(tiles), multiprocessors, last};
    }

private:
    // The time of a job of some of the groups, as part of that of all: groups fill each other's waiting. Measured with
    // three groups.
    double time_with(int64_t some) const {
        return 1 - 0.7 * static_cast<double>(groups - some) / static_cast<double>(groups);
    }
};

struct CardPlan {
    LateShares shares;
    int64_t heads_before; // by the whole card: the first ones
    int64_t preparers;    // multiprocessors that prepare the others beside the products; 0: there are none

    // None where multiprocessors do not have a job's time each.
    static std::optional<CardPlan> before(const CardLaunch& launch) {
        const auto shares = LateShares::of(launch.jobs(), {0, 0});
        if (!shares) return std::nullopt;
        return CardPlan{*shares, launch.heads, 0};
    }

    // None where heads are few, or have a single tile, of which it was not tried.
    static std::optional<CardPlan> beside(const CardLaunch& launch) {
        if (launch.tiles < 2) return std::nullopt;
        const EqualJobs jobs = launch.jobs();
        const int64_t units_of_head = launch.units / launch.heads;
        const PrepassWork work{static_cast<double>(units_of_head) * jobs.time_of_unit() / jobs.tiles, launch.tiles};
        const int64_t preparers = preparers_for(work, launch.multiprocessors);
        // Those of the first two rounds, since a block looks ahead by one.
        const int64_t last_unit = (2 * (launch.multiprocessors - preparers) - 1) / jobs.of_unit;
        const int64_t heads_before = last_unit / units_of_head + 1;
        if (heads_before > launch.heads / 4) return std::nullopt;
        const auto tiles_beside = static_cast<double>((launch.heads - heads_before) * launch.tiles);
        const double meanwhile = preparing_time(work) * tiles_beside / static_cast<double>(preparers);
        const auto shares = LateShares::of(jobs, {preparers, static_cast<int64_t>(meanwhile)});
        if (!shares) return std::nullopt;
        return CardPlan{*shares, heads_before, preparers};
    }
};

} // namespace hw4::gpu::fixed_point
