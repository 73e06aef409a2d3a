// How the work of a case is divided among several that compute it, each a contiguous share of about equal cost.
#pragma once

#include <vector>

#include "src/problem/case_part.h"

namespace hw4 {

// Rows of a head are cut where so many keys, or a multiple, are seen: what a contract scales together ends there
// (tiles of up to 128 keys), and so do the kernels' blocks of rows; a page of the output where d is a multiple of 8.
constexpr int64_t kCutRows = 128;
// From so many heads a share on, cuts are between heads: who has part of one reads its keys too.
constexpr int64_t kManyUnits = 16;

// Blocks of keys begin at multiples of this: where the kernels' blocks of pairs do.
constexpr int64_t kCutKeys = 64;

// For each share the rows of Q that are its own, some with none where there are not enough to cut. Equal are the
// pairs of a query and a key that it sees. An operation that gives rows of keys is not cut within the heads that share
// them.
std::vector<QueryRows> divide(const Problem& problem, int shares);

// Whether whoever computes can give some gradients of a head of keys without the others.
enum class Gradients { whole, cut };

// For each share its parts. With Gradients::cut and fewer heads of keys than shares, of those who share a head some
// give dQ of rows of queries and the others dK and dV of blocks of keys. Nobody waits for anybody's numbers, and that
// has its price: who has a block of keys does forward of all rows that see it. One share by itself makes seven products
// of matrices, two of them forward's; of a head without a mask two shares take 6/7 of that time, three 5/7, five 1/2,
// and however many at least 2/7.
std::vector<std::vector<CasePart>> divide_into_parts(const Problem& problem, int shares, Gradients gradients);

} // namespace hw4
