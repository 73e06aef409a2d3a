// Measures a training step as CS336 does: seconds of forward, backward and optimizer by model and context, tokens a
// second, memory; and over ranks, the ways to add up gradients and the sharded optimizer. The step is hw4 train's, on
// drawn tokens and weights.
#pragma once

#include <string>
#include <vector>

#include "src/bench/measured_machine.h"
#include "src/bench/rank_group.h"
#include "src/step/data_parallel.h"

namespace hw4::bench {

// hw4's own, or with all scores in memory, in float32.
enum class StepAttention { ours, naive };
constexpr const char* name_of(StepAttention attention) { return attention == StepAttention::ours ? "ours" : "naive"; }

struct StepCell {
    const step::Preset* model = nullptr;
    const Contract* contract = &kF32;
    step::SyncWay way; // for several ranks
    bool shard = false;
    StepAttention attention = StepAttention::ours;
    bool operations = false; // each one beside cuBLAS or a copy, on a GPU, instead of whole steps
    bool one_rank = false;   // the first rank alone, with the whole batch
    int64_t batch_size = 4;  // sequences over all ranks
    int64_t seq_len = 512;
    int64_t micro_batch = 0; // 0: all of a rank's sequences
    int threads = 0;         // per rank
    CollectiveRules rules;

    step::Configuration settings() const;
};

// 2 per term of every product and twice that backward; attention as bench counts it, causal.
double flops_of(const StepCell& cell);

struct StepRow {
    StepCell cell;
    RankGroup group;
    Outcome outcome;
    std::string kernel;
    size_t parameters = 0;
    size_t calls = 0; // calls that add up gradients
    // The slowest rank's times, for each timed step.
    std::vector<double> seconds;
    std::vector<double> communicating; // in such calls, including the wait for other ranks
    std::vector<double> of_phase[std::size(kStepPhases)];
    MeasuredMachine::Seconds operations; // on the first rank, in one step
    std::vector<MeasuredOperation> compared;
    double peak_flops = 0; // of all GPUs under the contract, per second; 0: unknown
    int64_t steps = 0;
    std::string parameters_crc32; // after that many steps
    double against_one_rank = 0;  // tokens/s over one rank's; 0: unknown
    // Bytes on the first rank: by purpose, and the peaks up to certain moments.
    size_t parameter_bytes = 0;
    size_t optimizer_bytes = 0;  // m and v
    size_t activation_bytes = 0; // including backward's
    size_t scratch_bytes = 0;
    size_t peak_after_init = 0;
    size_t peak_before_optimizer = 0;
    size_t peak = 0;
    MemoryInUse in_forward, in_step;

    double tokens_per_second() const;
    double flop_rate() const;
    // The fraction of a step that only several ranks need: everything outside forward, backward and optimizer.
    double communication_share() const;
};

// Called by all ranks.
StepRow measure_step(const StepCell& cell, const RankGroup& group, Ranks& ranks, Collectives& collectives);
std::string words_of(const StepCell& cell);

std::string step_head(const RankGroup& group);
std::string step_line(const StepRow& row);
std::string step_json(const StepRow& row); // an object

} // namespace hw4::bench
