#include "src/ranks/ordered_sum.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace hw4 {
namespace {

// The numbers of a slice in transit at a time: few enough to stay in a cache until they are added.
constexpr size_t kSliceFloats = size_t{64} << 10;

// The nodes within S(first, width) that lie completely in [begin, end).
void cover(int first, int width, int begin, int end, int rank, std::vector<SumNode>& nodes) {
    if (first >= end || first + width <= begin) return;
    if (first >= begin && first + width <= end) {
        nodes.push_back({first, width, rank});
        return;
    }
    const int left = left_width(width);
    cover(first, left, begin, end, rank, nodes);
    cover(first + left, width - left, begin, end, rank, nodes);
}

// Divides [first, first + count) into this many slices of nearly equal size.
std::vector<Piece> slices_of(size_t first, size_t count, size_t slices) {
    std::vector<Piece> pieces;
    for (size_t k = 0; k < slices; ++k) {
        const size_t begin = count * k / slices;
        pieces.push_back({first + begin, count * (k + 1) / slices - begin});
    }
    return pieces;
}

} // namespace

std::vector<SumNode> parts_of_ranks(int contributions, int ranks) {
    std::vector<SumNode> nodes;
    const auto begin_of = [&](int rank) { return static_cast<int>(int64_t{contributions} * rank / ranks); };
    for (int rank = 0; rank < ranks; ++rank) cover(0, contributions, begin_of(rank), begin_of(rank + 1), rank, nodes);
    return nodes;
}

OrderedSum::OrderedSum(Collectives& collectives, int contributions, int rank, int ranks)
    : collectives_(collectives), contributions_(contributions), rank_(static_cast<size_t>(rank)),
      ranks_(static_cast<size_t>(ranks)), nodes_(parts_of_ranks(contributions, ranks)) {
    for (const SumNode& node : nodes_)
        if (node.rank == rank) parts_.push_back(node);
    for (int k = 0; k < ranks; ++k) {
        const auto is_its = [k](const SumNode& node) { return node.rank == k; };
        most_parts_ = std::max(most_parts_, static_cast<size_t>(std::count_if(nodes_.begin(), nodes_.end(), is_its)));
    }
}

void OrderedSum::sum(const Parts& parts, const Piece& range, float* result) {
    if (ranks_ == 1) return sum_slices(parts, {range}, result);
    for (size_t done = 0; done < range.count; done += ranks_ * kSliceFloats) {
        const size_t count = std::min(range.count - done, ranks_ * kSliceFloats);
        const std::vector<Piece> slices = slices_of(range.first + done, count, ranks_);
        sum_slices(parts, slices, result);
        collectives_.all_gather(result, slices);
    }
}

void OrderedSum::sum_slices(const Parts& parts, const std::vector<Piece>& slices, float* result) {
    if (ranks_ == 1) { // a single rank has one part
        const Piece& all = slices.front();
        if (result != parts.front())
            std::memcpy(result + all.first, parts.front() + all.first, all.count * sizeof(float));
        return;
    }
    received_.resize(nodes_.size() * kSliceFloats);
    size_t most = 0;
    for (const Piece& slice : slices) most = std::max(most, slice.count);
    for (size_t done = 0; done < most; done += kSliceFloats) {
        std::vector<Piece> now;
        for (const Piece& slice : slices) {
            const size_t before = std::min(done, slice.count);
            now.push_back({slice.first + before, std::min(slice.count - before, kSliceFloats)});
        }
        bring_parts(parts, now);
        const Piece& mine = now[rank_];
        const float* const sums = added(0, contributions_, mine.count);
        std::memcpy(result + mine.first, sums, mine.count * sizeof(float)); // they were already sent
    }
}

// Brings all parts of this rank's slice here, node by node, in as many rounds as the most parts of a rank.
void OrderedSum::bring_parts(const Parts& parts, const std::vector<Piece>& slices) {
    for (size_t round = 0; round < most_parts_; ++round) {
        const bool sends = round < parts_.size();
        std::vector<Piece> to(ranks_);
        std::vector<Piece> from(ranks_);
        for (size_t k = 0; sends && k < ranks_; ++k) to[k] = slices[k];
        std::vector<size_t> seen(ranks_);
        for (size_t index = 0; index < nodes_.size(); ++index) {
            const auto owner = static_cast<size_t>(nodes_[index].rank);
            if (seen[owner]++ == round) from[owner] = {index * kSliceFloats, slices[rank_].count};
        }
        collectives_.all_to_all(sends ? parts[round] : received_.data(), to, received_.data(), from);
    }
}

// S(first, width) for this rank's slice, stored where its first node was.
float* OrderedSum::added(int first, int width, size_t count) {
    const auto is_it = [&](const SumNode& node) { return node.first == first && node.width == width; };
    const auto found = std::find_if(nodes_.begin(), nodes_.end(), is_it);
    if (found != nodes_.end()) return received_.data() + static_cast<size_t>(found - nodes_.begin()) * kSliceFloats;
    const int left = left_width(width);
    float* const sums = added(first, left, count);
    const float* const right = added(first + left, width - left, count);
    for (size_t i = 0; i < count; ++i) sums[i] += right[i];
    return sums;
}

} // namespace hw4
