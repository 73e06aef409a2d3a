// One head under the causal mask.
#pragma once

#include "src/problem/problem.h"

namespace hw4 {

inline Problem causal_problem(int64_t queries, int64_t keys, int64_t dim) {
    Problem problem(1, queries, dim);
    problem.keys = keys;
    problem.mask = Mask::causal;
    return problem;
}

} // namespace hw4
