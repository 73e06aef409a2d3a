// A training step as CS336 measures it: seconds of forward, backward and optimizer by model and context, tokens a
// second, memory; and over ranks, the ways to add up gradients and the sharded optimizer. The step is that of hw4
// train, on tokens and weights that are drawn.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/bench/measured_machine.h"
#include "src/bench/rank_group.h"
#include "src/step/data_parallel.h"

namespace hw4::bench {

struct StepCell {
    const step::Preset* model = nullptr;
    step::SyncWay way; // of several ranks
    bool shard = false;
    int64_t batch_size = 4; // sequences of all ranks together
    int64_t seq_len = 512;
    int64_t micro_batch = 0; // 0: all that a rank has
    int threads = 0;         // of a rank
    CollectiveRules rules;

    step::Configuration settings() const;
};

// 2 a term of every product and twice that backward; attention as bench counts it, causal.
double flops_of(const StepCell& cell);

struct StepRow {
    StepCell cell;
    RankGroup group;
    Outcome outcome;
    std::string kernel;
    size_t parameters = 0;
    size_t calls = 0; // that add up gradients
    // The slowest rank's, for each timed step.
    std::vector<double> seconds;
    std::vector<double> communicating; // in calls, waiting for other ranks among it
    std::vector<double> of_phase[std::size(kStepPhases)];
    double of_operation[std::size(kStepOperations)] = {}; // the first rank's, in one step
    double peak_flops = 0;                                // of all cards, a second; 0: not known
    // Bytes of the first rank: what they are for, and the most that was in use up to a moment.
    size_t parameter_bytes = 0;
    size_t optimizer_bytes = 0;  // m and v
    size_t activation_bytes = 0; // those of backward, too
    size_t scratch_bytes = 0;
    size_t peak_of_forward = 0; // without m, v, gradients and what backward needs
    size_t peak_after_init = 0;
    size_t peak_before_optimizer = 0;
    size_t peak = 0;

    double tokens_per_second() const;
    double flop_rate() const;
    // What the ranks add to a step, as a share of it: all that is neither forward, backward nor optimizer.
    double communication_share() const;
};

// Called by all ranks.
StepRow measure_step(const StepCell& cell, const RankGroup& group, Ranks& ranks, Collectives& collectives);

std::string step_head(const RankGroup& group);
std::string step_line(const StepRow& row);
std::string step_json(const StepRow& row); // an object

} // namespace hw4::bench
