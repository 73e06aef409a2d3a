// How the work of a launch without a mask is divided among the card's multiprocessors, that of the pre-pass too, where
// some of it is done beside the products (prepass.h). No CUDA here, so that it can be tested anywhere.
#pragma once

#include <cstdint>
#include <optional>

#include "src/gpu/fixed/forward/job_rows.h"
#include "src/gpu/fixed/forward/late_shares.h"
#include "src/gpu/fixed/forward/prepass.h"

namespace hw4::gpu::fixed_point {

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
    // Of a job of some of the groups, as part of one of all: groups fill each other's waiting. Measured of three.
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
