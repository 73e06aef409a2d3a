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

// For each share the rows of Q that are its own, some with none where there are not enough to cut. Equal are the
// pairs of a query and a key that it sees. An operation that gives rows of keys is not cut within the heads that share
// them.
std::vector<QueryRows> divide(const Problem& problem, int shares);

} // namespace hw4
