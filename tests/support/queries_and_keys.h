// Changes the numbers of a problem of one head row by row.
#pragma once

#include <vector>

#include "src/problem/problem.h"

namespace hw4 {

// Calls change(q, query) for one query after another.
template <class Change>
void each_query(std::vector<float>& values, const Problem& problem, Change change) {
    for (int64_t query = 0; query < problem.queries; ++query) change(values.data() + query * problem.dim, query);
}

// Calls change(k, v, key) for one key after another.
template <class Change>
void each_key(std::vector<float>& values, const Problem& problem, Change change) {
    float* const keys = values.data() + problem.floats_in(problem.queries);
    for (int64_t key = 0; key < problem.keys; ++key)
        change(keys + key * problem.dim, keys + (problem.keys + key) * problem.dim, key);
}

} // namespace hw4
