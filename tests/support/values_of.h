// The numbers of a problem's inputs, laid out as in a file.
#pragma once

#include <vector>

#include "src/io/case_values.h"

namespace hw4 {

inline std::vector<float> values_of(const Problem& problem, const Distribution& kind = CaseKind::uniform) {
    std::vector<float> values(problem.floats_in(problem.input_rows()));
    fill_in_parallel({problem, kind, 7}, 0, values.size(), values.data());
    return values;
}

// A batch as its own problem, with only its first keys.
inline std::vector<float> batch_of(const Problem& problem, const std::vector<float>& values, int64_t batch,
                                   int64_t keys) {
    const float* from = values.data() + batch * problem.batch_input_floats();
    const size_t queries = problem.floats_in(problem.heads * problem.queries);
    std::vector<float> part(from, from + queries);
    from += queries;
    for (int64_t head = 0; head < 2 * problem.kv_heads; ++head, from += problem.floats_in(problem.keys))
        part.insert(part.end(), from, from + problem.floats_in(keys));
    return part;
}

} // namespace hw4
