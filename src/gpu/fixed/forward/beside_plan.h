// How the pre-pass and the products of a launch share the card, where heads are prepared beside the products
// (prepass.h). No CUDA here, so that it can be tested anywhere.
#pragma once

#include <cstdint>
#include <optional>

#include "src/gpu/fixed/forward/job_rows.h"
#include "src/gpu/fixed/forward/late_shares.h"
#include "src/gpu/fixed/forward/prepass.h"

namespace hw4::gpu::fixed_point {

// A launch without a mask, on so many multiprocessors, each with a block of so many groups.
struct BesideLaunch {
    int64_t units;
    int64_t heads; // of K and V, each of as many units
    int64_t queries;
    int64_t tiles; // of a head
    int groups;
    int64_t multiprocessors;
};

struct BesidePlan {
    LateShares shares;
    uint32_t heads_before; // by the whole card: the first ones
    int64_t preparers;     // multiprocessors that prepare the others

    // None where it does not pay.
    static std::optional<BesidePlan> of(const BesideLaunch& launch) {
        const EqualJobs jobs{launch.units, static_cast<uint32_t>(jobs_for(launch.queries, launch.groups)),
                             static_cast<unsigned>(launch.tiles), launch.multiprocessors};
        const int64_t job_tiles = jobs.units * jobs.of_unit * jobs.tiles;
        const auto by = preparers_for({launch.heads * launch.tiles, job_tiles, launch.multiprocessors});
        if (!by) return std::nullopt;
        const auto shares = LateShares::of(jobs, {by->multiprocessors, by->job_tiles});
        if (!shares) return std::nullopt;
        // Those of the first two rounds, since a block looks ahead by one.
        const int64_t last_unit = (2 * int64_t{shares->early.blocks.number()} - 1) / jobs.of_unit;
        const int64_t before = last_unit / (launch.units / launch.heads) + 1;
        if (before > launch.heads / 3) return std::nullopt;
        return BesidePlan{*shares, static_cast<uint32_t>(before), by->multiprocessors};
    }
};

} // namespace hw4::gpu::fixed_point
