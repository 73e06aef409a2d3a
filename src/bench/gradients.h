// The step of data-parallel training in which ranks add up their gradients, as CS336 studies it: a call a tensor, all
// in one call, or buckets while backward still goes on. Backward is the program's own kernels of f32, a launch a layer;
// the gradients of parameters are numbers that are there, not computed from them.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/bench/rank_group.h"
#include "src/bench/summation.h"

namespace hw4::bench {

// The parameters of a transformer are many tensors, whose gradients ranks add up in every step.
struct Tensor {
    std::string name;
    size_t count = 0;
    int after_layers = 0; // its gradient is there once backward has done so many layers, from the last one down
};

struct Model {
    const char* name;
    const char* idea;
    int layers;
    int width;
    int heads;
    int feed_forward;
    int vocabulary;
    int positions;     // learnt ones; 0: none
    bool in_cs336_way; // separate Q, K, V, a feed-forward with a gate, norms of one vector, no biases

    // In the order in which backward gives their gradients.
    std::vector<Tensor> tensors() const;
};

const std::vector<Model>& models();

size_t count_of(const std::vector<Tensor>& tensors);

// Tensors that are added up in one call.
struct Bucket {
    size_t first = 0; // numbers
    size_t count = 0;
    int after_layers = 0;
};

// Gradients lie one after the other, so that those of a bucket are one vector. A bucket has tensors until one more
// would make it larger than `bytes`; 0: each has one. A tensor is never cut.
std::vector<Bucket> buckets_of(const std::vector<Tensor>& tensors, size_t bytes);

// How gradients are added up.
struct SyncWay {
    enum class Kind { none, naive, flat, overlapped };

    Kind kind = Kind::none;
    size_t bucket_bytes = 0; // of overlapped; 0: a call a tensor

    bool during_backward() const { return kind == Kind::overlapped; }
    size_t most_in_call() const {
        return kind == Kind::flat ? std::numeric_limits<size_t>::max() : kind == Kind::naive ? 0 : bucket_bytes;
    }
};

constexpr const char* name_of(SyncWay::Kind kind) {
    switch (kind) {
    case SyncWay::Kind::none: return "none";
    case SyncWay::Kind::naive: return "naive";
    case SyncWay::Kind::flat: return "flat";
    case SyncWay::Kind::overlapped: break;
    }
    return "overlapped";
}

struct GradientsCell {
    const Model* model = nullptr;
    Via via = Via::mpi;
    SyncWay way;
    int64_t batch_size = 8; // of a rank's attention, under the causal mask
    int64_t seq_len = 512;
    int contributions = 8; // as AllreduceCell has it
    int threads = 0;       // of the CPU
    CollectiveRules rules;
};

struct GradientsRow {
    GradientsCell cell;
    RankGroup group;
    Outcome outcome;
    std::string path;
    std::string kernel; // of backward
    size_t calls = 0;
    size_t bytes = 0;                  // of all gradients
    std::vector<double> seconds;       // a step, until the slowest rank has done it
    std::vector<double> communicating; // of that, the most that a rank was in calls
    std::optional<double> exposed_s;   // what a step takes longer than backward alone
};

// A rank's backward pass and gradients, for all cells of a model.
class GradientSteps {
public:
    GradientSteps(const GradientsCell& first, const RankGroup& group, Ranks& ranks, Collectives& collectives);
    ~GradientSteps();
    GradientSteps(const GradientSteps&) = delete;
    GradientSteps& operator=(const GradientSteps&) = delete;

    // Called by all. The cells of a model have its sizes in common, and differ in how gradients are added up.
    GradientsRow measure(const GradientsCell& cell);

private:
    struct Pass;

    void prepare(const GradientsCell& cell);
    double step(const GradientsCell& cell, const std::vector<Bucket>& buckets, Summation* summation, Outcome& outcome);

    RankGroup group_;
    Ranks& ranks_;
    Collectives& collectives_;
    std::unique_ptr<Pass> pass_;
    std::vector<Tensor> tensors_;
    std::unique_ptr<FloatMemory> memory_;
    size_t parts_ = 0; // that it has room for
    std::optional<double> backward_s_;
};

std::string gradients_head(const RankGroup& group, const Model& model);
std::string gradients_line(const GradientsRow& row);
std::string gradients_json(const GradientsRow& row); // an object

} // namespace hw4::bench
