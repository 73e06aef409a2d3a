// The sum of a fixed number of vectors, with the same bytes for every distribution over ranks: gradients of
// micro-batches, of which each of 1, 2 or 4 ranks computes more or fewer.
//
// The contract. There are M contributions c[0] ... c[M - 1], numbered by micro-batch; M does not depend on the number
// of ranks. Element by element their sum is S(0, M):
//     S(i, 1) = c[i]
//     S(i, w) = S(i, h) + S(i + h, w - h)    h: the largest power of two below w
// in float32, each addition rounded to nearest, without any other addition. Rank r of n has the contributions from
// M r / n to M (r + 1) / n, rounded down: complete nodes S(i, w) of that tree, each of which it adds up alone as
// micro-batches come. These are its parts. Where n divides M and both are powers of two, each rank has one part, as in
// any other all-reduce; it never has more than 2 log2 M.
//
// The numbers are divided into n slices. A rank gets all parts of its slice, adds them in the tree's order, and sends
// the slice to every rank: with one part each, 2 (n - 1) / n of the vector leaves and reaches a rank, as with a ring.
#pragma once

#include <cstddef>
#include <vector>

#include "src/ranks/collectives.h"

namespace hw4 {

// S(first, width), and the rank that has it.
struct SumNode {
    int first = 0;
    int width = 1;
    int rank = 0;

    friend bool operator==(const SumNode& a, const SumNode& b) {
        return a.first == b.first && a.width == b.width && a.rank == b.rank;
    }
};

// The largest power of two below `width`, which is at least 2.
constexpr int left_width(int width) {
    int left = 1;
    while (2 * left < width) left *= 2;
    return left;
}

// The parts of every rank, ordered by `first`.
std::vector<SumNode> parts_of_ranks(int contributions, int ranks);

// S(first, width) by the contract: contribution(i) is c[i], add(a, b) adds b to a.
template <class Contribution, class Add>
auto node_sum(int first, int width, const Contribution& contribution, const Add& add) {
    if (width == 1) return contribution(first);
    const int left = left_width(width);
    auto sum = node_sum(first, left, contribution, add);
    add(sum, node_sum(first + left, width - left, contribution, add));
    return sum;
}

class OrderedSum {
public:
    OrderedSum(Collectives& collectives, int contributions, int rank, int ranks);

    // This rank's parts, ordered by `first`; none where there are more ranks than contributions.
    const std::vector<SumNode>& parts() const { return parts_; }

    // The beginning of the numbers of each of this rank's parts.
    using Parts = std::vector<const float*>;

    // Called by all ranks. Adds up the numbers `range` of all contributions; every rank gets the sums, at the same
    // places in `result`, which may be the first part.
    void sum(const Parts& parts, const Piece& range, float* result);
    // The same, but rank k gets only the sums of slices[k].
    void sum_slices(const Parts& parts, const std::vector<Piece>& slices, float* result);

private:
    void bring_parts(const Parts& parts, const std::vector<Piece>& slices);
    float* added(int first, int width, size_t count);

    Collectives& collectives_;
    int contributions_;
    size_t rank_;
    size_t ranks_;
    std::vector<SumNode> nodes_; // of all ranks
    std::vector<SumNode> parts_;
    size_t most_parts_ = 0; // of any rank
    std::vector<float> received_;
};

} // namespace hw4
