// A step by several ranks, with the bytes of one. The sequences of a batch are divided as OrderedSum has it, whose tree
// is that of TOKEN-SUM: each rank computes the roots of its parts, the ranks add them up in the tree's order, and all
// update the same parameters. Numbers of a GPU pass through host memory, where the ranks add them.
//
// Sharded (ZeRO-1), a rank has AdamW's m and v of its shard alone: it gets the sums of its shard, updates the shard's
// parameters, and gives them to the others. The squares of segments are gathered as they are, so the norm has the same
// bytes too.
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

// How gradients are added up: a call for each tensor, one call, or calls for neighbouring tensors of up to so many
// bytes together, which begin after backward or, overlapped, while it goes on.
struct SyncWay {
    enum class Kind { naive, flat, bucketed, overlapped };

    Kind kind = Kind::flat;
    size_t bucket_bytes = 0; // of bucketed and overlapped

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
    size_t place = 0; // of the tensor whose gradient is complete last
};

// In the order in which backward completes them. A tensor larger than `bytes` is a bucket of its own.
std::vector<Bucket> buckets_of(const Parameters& parameters, size_t bytes);

// Each rank's shard of so many floats, a multiple of kSegment.
std::vector<Piece> shards_of(size_t floats, int ranks);

// The part of a range that is in the shard.
Piece in_shard(const Piece& shard, const Piece& range);

// This rank's, of what it updates; nothing where the optimizer is not sharded.
std::optional<Piece> shard_of(bool sharded, const Configuration& settings, const Ranks& ranks);

// The largest micro-batch, up to `most`, that a rank's parts of a batch take; 0: no limit. `alike`: that all ranks'
// parts take whole, so that a batch is cut as one rank would cut it.
int64_t micro_batch_for(int64_t most, int64_t batch, const Ranks& ranks, bool alike = false);

class DataParallel {
public:
    // The trainer has a shard of this rank's where the optimizer is sharded.
    DataParallel(Trainer& trainer, const Configuration& settings, Ranks& ranks, SyncWay way, bool sharded);

    // Called by all, with batches that give the same sequences. Throws on all ranks or on none, as agree() does.
    StepResult step(int64_t t, const Trainer::Batch& batch);

    // Seconds that the last step was in calls, waiting for other ranks among them.
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
    std::vector<Piece> shards_;         // none where it is not sharded
    std::vector<Owned<float>> roots_;   // the gradients of this rank's parts, and at least one
    std::vector<Owned<float>> on_host_; // copies of the roots, where they are in a GPU's memory
    OrderedSum::Parts parts_;           // where the gradients of parts begin in host memory
    float* sums_ = nullptr;             // where the ranks' sums come to: the first of these
    std::optional<RankFailure> not_copied_;
    double communicating_ = 0;
};

} // namespace hw4::step
