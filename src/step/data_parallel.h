// A step by several ranks, with the bytes of one. OrderedSum divides the sequences of a batch; its tree is that of
// TOKEN-SUM. Each rank computes the roots of its parts, the ranks add them up in the tree's order, and all ranks update
// the same parameters. A GPU's numbers are copied to host memory, where the ranks add them.
//
// With a sharded optimizer (ZeRO-1) a rank keeps AdamW's m and v only for its shard: it gets the sums of its shard,
// updates the shard's parameters, and sends them to the others. The ranks gather the squares of segments before adding
// them, so the norm has the same bytes too.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "src/ranks/agree.h"
#include "src/ranks/ordered_sum.h"
#include "src/ranks/ranks.h"
#include "src/step/trainer.h"

namespace hw4::step {

// How gradients are added up: a call for each tensor, one call, or a call for each bucket of neighbouring tensors of up
// to bucket_bytes together. Calls begin after backward or, if overlapped, during it.
struct SyncWay {
    enum class Kind { naive, flat, bucketed, overlapped };

    Kind kind = Kind::flat;
    size_t bucket_bytes = 0; // for bucketed and overlapped

    size_t most_in_call() const {
        return kind == Kind::flat ? std::numeric_limits<size_t>::max() : kind == Kind::naive ? 0 : bucket_bytes;
    }
};

constexpr const char* name_of(SyncWay::Kind kind) {
    constexpr const char* kNames[] = {"naive", "flat", "bucketed", "overlapped"};
    return kNames[static_cast<size_t>(kind)];
}

// Tensors that are added up in one call.
struct Bucket {
    Piece floats;
    size_t place = 0; // of the tensor that backward completes last
};

// The buckets in the order in which backward completes them. A tensor larger than `bytes` is a bucket of its own.
std::vector<Bucket> buckets_of(const Parameters& parameters, size_t bytes);

// Divides `floats` numbers, a multiple of kSegment, into a shard for each rank.
std::vector<Piece> shards_of(size_t floats, int ranks);

// The part of a range that is in the shard.
Piece in_shard(const Piece& shard, const Piece& range);

// The parameters that this rank updates; nothing if the optimizer is not sharded.
std::optional<Piece> shard_of(bool sharded, const Configuration& settings, const Ranks& ranks);

// The largest micro-batch, up to `most`, that a rank's parts of a batch take; 0: no limit. `alike`: all ranks'
// parts are multiples of it, so that a batch is cut as one rank would cut it.
int64_t micro_batch_for(int64_t most, int64_t batch, const Ranks& ranks, bool alike = false);

class DataParallel {
public:
    // If the optimizer is sharded, the trainer has this rank's shard.
    DataParallel(Trainer& trainer, const Configuration& settings, Ranks& ranks, SyncWay way, bool sharded);

    // All ranks call it, with batches that give the same sequences. Throws on all ranks or on none, as agree() does.
    StepResult step(int64_t t, const Trainer::Batch& batch);

    // Seconds of the last step in calls, including the wait for other ranks.
    double communicating() const { return communicating_; }
    size_t calls() const { return ranks_.count() > 1 ? buckets_.size() : 0; }

private:
    std::vector<double> compute(const Trainer::Batch& batch, const Written& written);
    void add_up(const Bucket& bucket);
    void gather_weights();
    std::vector<double> compute_overlapped(const Trainer::Batch& batch);
    std::vector<double> all_losses(const std::vector<double>& losses);
    template <class Call>
    void timed(const Call& call);
    template <class Work>
    void copy(const Work& work);

    Trainer& trainer_;
    const int batch_;
    Ranks& ranks_;
    const SyncWay way_;
    std::unique_ptr<Collectives> collectives_;
    OrderedSum ordered_;
    std::vector<Bucket> buckets_;
    std::vector<Piece> shards_;         // empty: not sharded
    std::vector<Owned<float>> roots_;   // the gradients of this rank's parts, and at least one
    std::vector<Owned<float>> on_host_; // copies of the roots, if these are in a GPU's memory
    OrderedSum::Parts parts_;           // where the gradients of parts begin in host memory
    float* sums_ = nullptr;             // the ranks' sums, in the first of these
    std::optional<RankFailure> not_copied_;
    double communicating_ = 0;
};

} // namespace hw4::step
