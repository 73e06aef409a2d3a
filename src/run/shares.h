// Divides the work of a case into contiguous shares of about equal cost.
#pragma once

#include <vector>

#include "src/problem/case_part.h"

namespace hw4 {

// A head's rows are cut where a multiple of this many keys is visible: tiles with a common scale end there (up to 128
// keys), and so do the kernels' blocks of rows; it is a page of the output where d is a multiple of 8.
constexpr int64_t kCutRows = 128;
// From this many heads per share on, cuts are between heads: a share with part of a head reads all its keys too.
constexpr int64_t kManyUnits = 16;

// Blocks of keys begin at multiples of this, as the kernels' blocks of pairs do.
constexpr int64_t kCutKeys = 64;

// Each share's own rows of Q; some shares are empty where there are too few rows to cut. Shares are equal in pairs of a
// query and a visible key. An operation that gives rows of keys is not cut within the heads that share them.
std::vector<QueryRows> divide(const Problem& problem, int shares);

// The same for a problem with lengths: cuts are only between heads, because the mask of a row depends on the length of
// its batch.
std::vector<QueryRows> divide_by_lengths(const Problem& problem, int shares, const int32_t* lengths);

// Whether all ranks can compute some gradients of a head of keys without the others.
enum class Gradients { whole, cut };

// The parts of each share. With Gradients::cut and fewer heads of keys than shares, some of the shares of a head
// compute dQ for rows of queries and the others dK and dV for blocks of keys. No share waits for another's numbers, at
// a price: a share with a block of keys computes forward for all rows that see it. A single share makes seven matrix
// products, two of them forward's; for a head without a mask two shares take 6/7 of that time, three 5/7, five 1/2, and
// any number at least 2/7. `lengths`: the keys of each batch, for a problem with lengths.
std::vector<std::vector<CasePart>> divide_into_parts(const Problem& problem, int shares, Gradients gradients,
                                                     const int32_t* lengths = nullptr);

} // namespace hw4
