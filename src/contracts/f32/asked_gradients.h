// What of backward is asked for, and of which rows and keys that takes pairs: of an operation that is a part of
// backward not of all. Pure, the same for every engine.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/contracts/f32/backward.h"
#include "src/problem/problem.h"

namespace hw4 {

// Of a block of keys dK and dV, of all of them dQ too, or dQ alone.
struct AskedGradients {
    int64_t first_key; // of those whose pairs are formed
    int64_t keys;
    bool gives_dq;
    bool gives_dk_dv;
    int64_t unseeing_rows; // of each head, from its first on, that have no such pair; whole groups of its sums

    explicit AskedGradients(const Problem& problem)
        : first_key(problem.operation == &kKeyGradients ? problem.first_key : 0),
          keys(problem.operation == &kKeyGradients ? problem.block_keys : problem.keys),
          gives_dq(problem.operation != &kKeyGradients), gives_dk_dv(problem.operation != &kQueryGradients),
          unseeing_rows(unseeing(problem) / kGroupRows * kGroupRows) {}

    // The problem without those rows, of which the same is asked for.
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
