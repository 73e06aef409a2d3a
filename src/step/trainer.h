// A training step over a machine: gradients of micro-batches, joined in the tree of TOKEN-SUM (orders.h), clipped, and
// AdamW. It knows nothing of files.
//
// root_of() gives the root of the subtree of any aligned block of sequences, update() takes that of the whole batch:
// ranks that compute a block each add their roots in between.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "src/step/configuration.h"
#include "src/step/machine.h"
#include "src/step/pass.h"

namespace hw4::step {

// The loss and the gradient of some sequences: the loss is their sum, the gradient is divided by the tokens of the
// global batch already.
struct Root {
    Owned<float> gradient;
    double loss = 0;
};

struct StepResult {
    double loss = 0; // mean over the tokens
    double norm = 0; // of the gradient, before it is clipped
};

class Trainer {
public:
    // `micro_batch`: how many sequences are computed at a time, a power of two; the bytes do not depend on it.
    Trainer(Machine& machine, const Configuration& settings, int64_t micro_batch);

    const Parameters& parameters() const { return parameters_; }
    // Parameters and AdamW's m and v, parameters().floats each, in the machine's memory: all 0 at first. What is
    // between two tensors stays 0.
    float* weights() { return weights_.get(); }
    float* m() { return m_.get(); }
    float* v() { return v_.get(); }

    // Sequences `first` to `first + count - 1` of a step's batch.
    using Batch = std::function<Tokens(int64_t first, int64_t count)>;
    // `first` is a multiple of `count`, a power of two, but for the last block of a batch, which may end early.
    Root root_of(const Batch& batch, int64_t first, int64_t count);

    // Step t = 1, 2, ... Throws Error (bad_data), with nothing updated, where the loss or the norm is not finite.
    StepResult update(int64_t t, Root whole);

    StepResult step(int64_t t, const Batch& batch) { return update(t, root_of(batch, 0, settings_.batch)); }

private:
    double squares_of(const float* gradient);
    Owned<float> take_gradient();
    // Adds the newest of `pending` to the one before.
    void join(std::vector<Owned<float>>& pending);

    Machine& machine_;
    const Configuration settings_;
    const int64_t micro_batch_;
    const Parameters parameters_;
    Owned<float> weights_, m_, v_;
    Pass pass_;
    std::vector<Owned<float>> unused_; // gradients
    std::vector<float> squares_;
};

} // namespace hw4::step
