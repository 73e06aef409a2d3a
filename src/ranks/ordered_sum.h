// The sum of a fixed number of vectors, with the same bytes whoever has which of them: gradients of micro-batches, of
// which 1, 2 or 4 ranks compute more or fewer each.
//
// The contract. There are M contributions c[0] ... c[M - 1], numbered by micro-batch; M does not depend on the number
// of ranks. Number by number their sum is S(0, M):
//     S(i, 1) = c[i]
//     S(i, w) = S(i, h) + S(i + h, w - h)    h: the largest power of two below w
// in float32, each addition rounded to nearest, and no other addition. Of n ranks the r-th has those from M r / n to
// M (r + 1) / n, rounded down: whole nodes S(i, w) of that tree, which it adds up by itself as micro-batches come. They
// are its parts. Where n divides M and both are powers of two that is one part a rank, as for any other all-reduce;
// never is it more than 2 log2 M.
//
// The numbers are cut into n slices. A rank gets all parts of its slice, adds them as the tree says, and everybody gets
// the slices: with one part each, 2 (n - 1) / n of the vector leaves and reaches a rank, as with a ring.
#pragma once

#include <cstddef>
#include <vector>

#include "src/ranks/collectives.h"

namespace hw4 {

// S(first, width), and whose it is.
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

// Every rank's parts, by first.
std::vector<SumNode> parts_of_ranks(int contributions, int ranks);

// S(first, width) as the contract has it: contribution(i) is c[i], add(a, b) adds b to a.
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

    // The pieces of this rank, by first; none where there are more ranks than contributions.
    const std::vector<SumNode>& parts() const { return parts_; }

    // Where the numbers of each of this rank's parts begin.
    using Parts = std::vector<const float*>;

    // Called by all. The numbers `range` of all contributions are added up; every rank gets the sums, in their places
    // of `result`, which may be the first part.
    void sum(const Parts& parts, const Piece& range, float* result);
    // The same, but rank k gets the sums of slices[k] alone.
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
    size_t most_parts_ = 0; // of a rank
    std::vector<float> received_;
};

} // namespace hw4
