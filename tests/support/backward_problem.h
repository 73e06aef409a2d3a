// Backward problems with heads, two lengths and a mask.
#pragma once

#include "src/problem/problem.h"

namespace hw4 {

struct BackwardSizes {
    int64_t batches, heads, kv_heads, queries, keys, dim;
};

inline Problem backward_of(const BackwardSizes& sizes, Mask mask = Mask::none) {
    Problem problem(sizes.batches, sizes.queries, sizes.dim);
    problem.heads = sizes.heads;
    problem.kv_heads = sizes.kv_heads;
    problem.keys = sizes.keys;
    problem.mask = mask;
    problem.operation = &kBackward;
    return problem;
}

} // namespace hw4
