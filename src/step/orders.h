// The order of every sum of a training step (contract f32.step/1, arithmetic.h). Each sum begins with +0, also where it
// has one term, so none is -0, and a part that is 0 may be left out or padded.
//
//   K-SUM      k ascending in chains of 32 fused terms, each from +0. A leaf of 1024 k is +0 plus its chains in order;
//              the sum is +0 plus the leaves in order.
//   TOKEN-SUM  a leaf is one sequence: +0 plus its chains of 32 tokens in order. Leaves are added in a binary tree over
//              the sequence's index in the global batch: 2i and 2i + 1 first; where one is missing, the other is the
//              node. So an aligned block of 2^n sequences is one subtree on any rank.
//   ROW-SUM    segments of 1024 columns. In a segment column e belongs to chain e mod 128, chains ascend from +0;
//              lane l is (c[4l] + c[4l+1]) + (c[4l+2] + c[4l+3]); the 32 lanes are added by halves, l and l + 16,
//              then 8, 4, 2, 1. The sum is +0 plus the segments in order.
//   squares    of a tensor: the float ROW-SUM of fused(g, g, .) for every 1024 elements, then of these floats, as
//              doubles, a ROW-SUM in doubles. Tensors are added in order, from +0.
//
// A term is a function (index, chain) that returns the chain with that term added.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/inline.h"
#include "src/step/model.h"

namespace hw4::step {

constexpr int64_t kChain = 32;        // terms of a chain of a product
constexpr int64_t kLeaf = 1024;       // terms of a leaf of K-SUM
constexpr int64_t kRowSegment = 1024; // columns of a segment of ROW-SUM
constexpr int64_t kRowChains = 128;
constexpr int64_t kRowLanes = 32;
static_assert(kSegment == kRowSegment, "the squares of a segment of a tensor are one segment of ROW-SUM");

HW4_INLINE constexpr int64_t parts(int64_t things, int64_t part) { return (things + part - 1) / part; }

// +0 plus the chains of the terms from `first` to before `end`.
template <class Term>
HW4_INLINE float chains_sum(int64_t first, int64_t end, const Term& term) {
    float total = 0;
    for (int64_t begin = first; begin < end; begin += kChain) {
        float chain = 0;
        for (int64_t k = begin; k < end && k < begin + kChain; ++k) chain = term(k, chain);
        total = total + chain;
    }
    return total;
}

template <class Term>
HW4_INLINE float k_sum(int64_t terms, const Term& term) {
    float sum = 0;
    for (int64_t first = 0; first < terms; first += kLeaf)
        sum = sum + chains_sum(first, terms < first + kLeaf ? terms : first + kLeaf, term);
    return sum;
}

// The node over the leaves from `first` to before first + size, a power of two; there are `count` leaves in all.
template <class Leaf>
auto tree_node(int64_t first, int64_t size, int64_t count, const Leaf& leaf) -> decltype(leaf(first)) {
    if (size == 1) return leaf(first);
    const auto left = tree_node(first, size / 2, count, leaf);
    if (first + size / 2 >= count) return left;
    return left + tree_node(first + size / 2, size / 2, count, leaf);
}

template <class Leaf>
auto tree_sum(int64_t count, const Leaf& leaf) -> decltype(leaf(count)) {
    int64_t size = 1;
    while (size < count) size *= 2;
    return tree_node(0, size, count, leaf);
}

// For the same tree when leaves come one after the other: how often the newest two subtrees are joined after leaf
// `index`. After the last leaf the newest two are joined until one is left.
HW4_INLINE int joins_after(int64_t index) {
    int joins = 0;
    for (; (index & 1) != 0; index >>= 1) ++joins;
    return joins;
}

// `term` (token, chain) of tokens counted through all sequences.
template <class Term>
float token_sum(int64_t sequences, int64_t context, const Term& term) {
    return tree_sum(sequences, [&](int64_t s) { return chains_sum(s * context, (s + 1) * context, term); });
}

// The sum of a segment from its chains.
template <class T>
HW4_INLINE T close_chains(const T* chain) {
    T lanes[kRowLanes];
    for (int64_t l = 0; l < kRowLanes; ++l)
        lanes[l] = (chain[4 * l] + chain[4 * l + 1]) + (chain[4 * l + 2] + chain[4 * l + 3]);
    for (int64_t half = kRowLanes / 2; half > 0; half /= 2)
        for (int64_t l = 0; l < half; ++l) lanes[l] = lanes[l] + lanes[l + half];
    return lanes[0];
}

template <class T, class Term>
HW4_INLINE T row_sum(int64_t columns, const Term& term) {
    T sum = 0;
    for (int64_t segment = 0; segment < columns; segment += kRowSegment) {
        T chain[kRowChains] = {};
        for (int64_t first = segment; first < columns && first < segment + kRowSegment; first += kRowChains) {
            const int64_t count = columns - first < kRowChains ? columns - first : kRowChains;
            for (int64_t c = 0; c < count; ++c) chain[c] = term(first + c, chain[c]);
        }
        sum = sum + close_chains(chain);
    }
    return sum;
}

// A tensor's sum of squares, from the sums of its segments.
HW4_INLINE double squares_sum(const float* of_segments, int64_t segments) {
    return row_sum<double>(segments, [&](int64_t e, double chain) { return chain + of_segments[e]; });
}

} // namespace hw4::step
