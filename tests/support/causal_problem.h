// Problems with the causal mask, and with several heads.
#pragma once

#include "src/problem/problem.h"

namespace hw4 {

// One head.
inline Problem causal_problem(int64_t queries, int64_t keys, int64_t dim) {
    Problem problem(1, queries, dim);
    problem.keys = keys;
    problem.mask = Mask::causal;
    return problem;
}

inline Problem with_heads(Problem problem, int64_t batches, int64_t heads, int64_t kv_heads) {
    problem.batches = batches;
    problem.heads = heads;
    problem.kv_heads = kv_heads;
    return problem;
}

} // namespace hw4
