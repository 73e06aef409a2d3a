#include "src/step/data_parallel.h"

#include <algorithm>
#include <chrono>

#include "src/base/parallel.h"
#include "src/ranks/parcel.h"
#include "src/step/host_machine.h"

namespace hw4::step {

std::vector<Bucket> buckets_of(const Parameters& parameters, size_t bytes) {
    std::vector<Bucket> buckets;
    size_t end = parameters.floats;
    for (size_t place = parameters.list.size(); place-- > 0;) {
        const size_t first = parameters.list[place].first;
        const size_t count = end - first; // with the zeros up to the next tensor
        const bool fits = !buckets.empty() && (buckets.back().floats.count + count) <= bytes / sizeof(float);
        if (!fits) buckets.push_back({{end, 0}, place});
        buckets.back().floats = {first, buckets.back().floats.count + count};
        buckets.back().place = place;
        end = first;
    }
    return buckets;
}

std::vector<Piece> shards_of(size_t floats, int ranks) {
    const size_t segments = floats / kSegment;
    const auto begin_of = [&](size_t rank) { return segments * rank / static_cast<size_t>(ranks) * kSegment; };
    std::vector<Piece> shards;
    for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank)
        shards.push_back({begin_of(rank), begin_of(rank + 1) - begin_of(rank)});
    return shards;
}

Piece in_shard(const Piece& shard, const Piece& range) {
    const size_t begin = std::max(shard.first, range.first);
    const size_t end = std::min(shard.first + shard.count, range.first + range.count);
    return {begin, end > begin ? end - begin : 0};
}

std::optional<Piece> shard_of(bool sharded, const Configuration& settings, const Ranks& ranks) {
    if (!sharded) return std::nullopt;
    return shards_of(parameters_of(settings.model).floats, ranks.count())[static_cast<size_t>(ranks.rank())];
}

int64_t micro_batch_for(int64_t most, int64_t batch, const Ranks& ranks, bool alike) {
    const std::vector<SumNode> nodes = parts_of_ranks(static_cast<int>(batch), ranks.count());
    int64_t widest = 1;
    for (const SumNode& node : nodes)
        if (alike || node.rank == ranks.rank()) widest = std::max<int64_t>(widest, node.width);
    int64_t size = 1;
    while (size < widest) size *= 2;
    if (most > 0) size = std::min(most, size);
    const auto is_cut = [&](const SumNode& node) {
        const int64_t end = int64_t{node.first} + node.width;
        return node.first % size != 0 || (end % size != 0 && end != batch);
    };
    while (alike && std::any_of(nodes.begin(), nodes.end(), is_cut)) size /= 2;
    return size;
}

DataParallel::DataParallel(Trainer& trainer, const Configuration& settings, Ranks& ranks, SyncWay way, bool sharded)
    : trainer_(trainer), batch_(static_cast<int>(settings.batch)), ranks_(ranks), way_(way),
      collectives_(ranks.collectives()), ordered_(*collectives_, batch_, ranks.rank(), ranks.count()),
      buckets_(buckets_of(trainer.parameters(), way.most_in_call())) {
    if (sharded) shards_ = shards_of(trainer.parameters().floats, ranks.count());
    const size_t parts = ordered_.parts().size();
    while (roots_.size() < std::max<size_t>(parts, 1)) roots_.push_back(trainer.take_gradient());
    if (ranks.count() > 1 && !trainer.machine().is_on_host())
        while (on_host_.size() < roots_.size())
            on_host_.push_back(allocate_on_host<float>(trainer.parameters().floats));
    const std::vector<Owned<float>>& all = on_host_.empty() ? roots_ : on_host_;
    for (size_t part = 0; part < parts; ++part) parts_.push_back(all[part].get());
    sums_ = all.front().get();
}

template <class Call>
void DataParallel::timed(const Call& call) {
    using Clock = std::chrono::steady_clock;
    if (ranks_.count() == 1) return;
    const Clock::time_point start = Clock::now();
    call();
    communicating_ += std::chrono::duration<double>(Clock::now() - start).count();
}

// The losses of this rank's sequences. `written` is told of the last part's tensors.
std::vector<double> DataParallel::compute(const Trainer::Batch& batch, const Written& written) {
    std::vector<double> losses;
    for (size_t i = 0; i < parts_.size(); ++i) {
        const SumNode& part = ordered_.parts()[i];
        const std::vector<double> more = trainer_.root_into(batch, part.first, part.width, roots_[i].get(),
                                                            i + 1 == parts_.size() ? written : Written());
        losses.insert(losses.end(), more.begin(), more.end());
    }
    return losses;
}

// A copy from or to the machine's memory. One that fails does not keep the rank from its calls: the others wait there.
template <class Work>
void DataParallel::copy(const Work& work) {
    if (!on_host_.empty() && !not_copied_) not_copied_ = attempt(work);
}

void DataParallel::add_up(const Bucket& bucket) {
    timed([&] {
        const Piece& all = bucket.floats;
        Machine& machine = trainer_.machine();
        copy([&] {
            for (size_t part = 0; part < parts_.size(); ++part)
                machine.get(on_host_[part].get() + all.first, roots_[part].get() + all.first, all.count);
        });
        if (shards_.empty()) {
            ordered_.sum(parts_, all, sums_);
        } else {
            std::vector<Piece> slices;
            for (const Piece& shard : shards_) slices.push_back(in_shard(shard, all));
            ordered_.sum_slices(parts_, slices, sums_);
        }
        const Piece mine = in_shard(trainer_.shard(), all);
        if (mine.count > 0)
            copy([&] { machine.put(roots_.front().get() + mine.first, sums_ + mine.first, mine.count); });
    });
}

void DataParallel::gather_weights() {
    timed([&] {
        float* const weights = trainer_.weights();
        if (on_host_.empty()) return collectives_->all_gather(weights, shards_);
        const Piece& mine = trainer_.shard();
        copy([&] { trainer_.machine().get(sums_ + mine.first, weights + mine.first, mine.count); });
        collectives_->all_gather(sums_, shards_);
        copy([&] { trainer_.machine().put(weights, sums_, trainer_.parameters().floats); });
    });
    agree(ranks_, {not_copied_});
}

// Another thread talks to the other ranks meanwhile, and makes all of its calls whatever becomes of backward: the other
// ranks wait for them.
std::vector<double> DataParallel::compute_overlapped(const Trainer::Batch& batch) {
    std::vector<double> losses;
    std::optional<RankFailure> of_calls;
    std::optional<RankFailure> of_backward;
    std::vector<Gate> complete(buckets_.size()); // each bucket's gradients
    const auto reach = [&](size_t place) {
        for (size_t i = 0; i < buckets_.size(); ++i)
            if (buckets_[i].place == place) complete[i].open();
    };
    const auto call = [&] {
        of_calls = attempt([&] {
            for (size_t i = 0; i < buckets_.size(); ++i) {
                complete[i].wait();
                add_up(buckets_[i]);
            }
        });
    };
    {
        WorkerThreads thread;
        const bool no_thread = attempt([&] { thread.start(1, [&](int) { call(); }); }).has_value();
        of_backward = attempt([&] { losses = compute(batch, reach); });
        for (Gate& gate : complete) gate.open();
        if (no_thread) call();
    }
    agree(ranks_, {of_backward, of_calls});
    return losses;
}

// The losses of all sequences, in the order of the ranks.
std::vector<double> DataParallel::all_losses(const std::vector<double>& losses) {
    Parcel mine;
    for (const double loss : losses) mine.put(loss);
    std::vector<double> all;
    for (const std::string& of_rank : ranks_.exchange(mine.bytes()))
        for (OpenedParcel parcel(of_rank); !parcel.empty();) all.push_back(parcel.take<double>());
    return all;
}

StepResult DataParallel::step(int64_t t, const Trainer::Batch& batch) {
    communicating_ = 0;
    std::vector<double> losses;
    if (way_.kind == SyncWay::Kind::overlapped) {
        losses = compute_overlapped(batch);
    } else {
        agree(ranks_, [&] { losses = compute(batch, {}); });
        for (const Bucket& bucket : buckets_) add_up(bucket);
    }
    const float* const gradient = roots_.front().get();
    std::vector<float>* squares = nullptr;
    const auto no_squares = attempt([&] { squares = &trainer_.squares_of_shard(gradient); });
    agree(ranks_, {not_copied_, no_squares});
    if (!shards_.empty())
        timed([&] {
            std::vector<Piece> pieces;
            for (const Piece& shard : shards_) pieces.push_back({shard.first / kSegment, shard.count / kSegment});
            collectives_->all_gather(squares->data(), pieces);
        });
    losses = all_losses(losses);
    StepResult result;
    agree(ranks_, [&] { result = trainer_.finish(t, losses, gradient); });
    if (!shards_.empty()) gather_weights();
    return result;
}

} // namespace hw4::step
