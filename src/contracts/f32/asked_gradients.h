// The gradients that an operation asks for, and the rows and keys that form pairs for them: an operation that is a part
// of backward does not need all pairs. Pure functions, the same for every engine.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/contracts/f32/backward.h"
#include "src/problem/problem.h"

namespace hw4 {

// dK and dV of a block of keys, with or without the dQ of all keys, or dQ alone.
struct AskedGradients {
    int64_t first_key; // of the keys that form pairs
    int64_t keys;
    bool gives_dq;
    bool gives_dk_dv;
    int64_t unseeing_rows; // the first rows of each head that see none of these keys; a multiple of the rows of a group

    explicit AskedGradients(const Problem& problem)
        : first_key(problem.operation == &kKeyGradients ? problem.first_key : 0),
          keys(problem.operation == &kKeyGradients ? problem.block_keys : problem.keys),
          gives_dq(problem.operation != &kKeyGradients), gives_dk_dv(problem.operation != &kQueryGradients),
          unseeing_rows(unseeing(problem) / kGroupRows * kGroupRows) {}

    // The problem without these rows.
    Problem of_rows(const Problem& problem) const {
        Problem seeing = problem;
        seeing.queries -= unseeing_rows;
        return seeing;
    }

private:
    int64_t unseeing(const Problem& problem) const {
        if (gives_dq || problem.mask == Mask::none) return 0;
        return std::max<int64_t>(first_key - sight_of(problem.mask, problem.queries, problem.keys).first + 1, 0);
    }
};

} // namespace hw4
