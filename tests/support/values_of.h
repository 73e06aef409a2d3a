// The numbers of a problem's inputs, as in a file.
#pragma once

#include <vector>

#include "src/io/case_values.h"

namespace hw4 {

inline std::vector<float> values_of(const Problem& problem, const Distribution& kind = CaseKind::uniform) {
    std::vector<float> values(problem.floats_in(problem.input_rows()));
    fill_in_parallel({problem, kind, 7}, 0, values.size(), values.data());
    return values;
}

} // namespace hw4
