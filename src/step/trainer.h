// A training step over a machine: gradients of micro-batches, joined in the tree of TOKEN-SUM (orders.h), clipped, and
// AdamW. It knows nothing of files.
//
// root_into() gives the root of the subtree of any aligned block of sequences, finish() takes that of the whole batch:
// ranks that compute a block each add their roots in between (data_parallel.h).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "src/ranks/collectives.h"
#include "src/step/configuration.h"
#include "src/step/machine.h"
#include "src/step/pass.h"

namespace hw4::step {

struct StepResult {
    double loss = 0; // mean over the tokens
    double norm = 0; // of the gradient, before it is clipped
};

class Trainer {
public:
    // `micro_batch`: how many sequences are computed at a time, a power of two; the bytes do not depend on it. `shard`:
    // the parameters that are updated here, cut at multiples of kSegment; all of them where it is not given.
    Trainer(Machine& machine, const Configuration& settings, int64_t micro_batch, std::optional<Piece> shard = {});

    Machine& machine() { return machine_; }
    const Parameters& parameters() const { return parameters_; }
    const Piece& shard() const { return shard_; }
    // Parameters, parameters().floats of them, and AdamW's m and v of the shard, in the machine's memory: all 0 at
    // first. What is between two tensors stays 0.
    float* weights() { return weights_.get(); }
    float* m() { return m_.get(); }
    float* v() { return v_.get(); }

    // Sequences `first` to `first + count - 1` of a step's batch.
    using Batch = std::function<Tokens(int64_t first, int64_t count)>;
    // Memory for a gradient, in which the numbers between two tensors are 0.
    Owned<float> take_gradient();
    // Writes the gradient of these sequences, already divided by the tokens of the global batch. Returns each
    // sequence's sum of losses. `count` is a power of two and `first` a multiple of it; only the last block of a batch
    // may have fewer sequences.
    std::vector<double> root_into(const Batch& batch, int64_t first, int64_t count, float* gradient,
                                  const Written& written = {});
    // The sums of squares of the shard's segments, in their places among the sums of all segments.
    std::vector<float>& squares_of_shard(const float* gradient);
    // Ends step t = 1, 2, ..., given the losses of all sequences, when the segments' sums of squares are complete.
    // Throws Error (bad_data), with nothing updated, if the loss or the norm is not finite.
    StepResult finish(int64_t t, const std::vector<double>& losses, const float* gradient);

private:
    double sum_of_squares() const;

    Machine& machine_;
    const Configuration settings_;
    const int64_t micro_batch_;
    const Parameters parameters_;
    const Piece shard_;
    Owned<float> weights_, m_, v_;
    Pass pass_;
    std::vector<Owned<float>> unused_; // gradients
    std::vector<float> squares_;
};

} // namespace hw4::step
