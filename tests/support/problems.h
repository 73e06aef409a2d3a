// Problems with several heads, two lengths and a mask, and the numbers of their inputs, laid out as in a file.
#pragma once

#include <algorithm>
#include <vector>

#include "src/io/case_values.h"
#include "src/problem/case_part.h"

namespace hw4 {

// A problem with one head.
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

struct Sizes {
    int64_t batches, heads, kv_heads, queries, keys, dim;
};

inline Problem problem_of(const Sizes& sizes, Mask mask = Mask::none, const Operation& operation = kForward) {
    Problem problem(sizes.batches, sizes.queries, sizes.dim);
    problem.heads = sizes.heads;
    problem.kv_heads = sizes.kv_heads;
    problem.keys = sizes.keys;
    problem.mask = mask;
    problem.operation = &operation;
    return problem;
}

inline Problem backward_of(const Sizes& sizes, Mask mask = Mask::none) { return problem_of(sizes, mask, kBackward); }

inline std::vector<float> row_of(const std::vector<float>& out, const Problem& problem, int64_t row) {
    return {out.begin() + row * problem.dim, out.begin() + (row + 1) * problem.dim};
}

// The part's own rows of a file of the whole case.
inline std::vector<float> rows_of(const CasePart& part, const List<Operand>& tensors, int64_t rows,
                                  const std::vector<float>& whole) {
    const Problem& problem = part.problem;
    std::vector<float> own(problem.floats_in(rows));
    part.each_stretch(tensors, 0, rows, [&](int64_t first, int64_t at, int64_t count) {
        std::copy_n(&whole[problem.floats_in(at)], problem.floats_in(count), &own[problem.floats_in(first)]);
    });
    return own;
}

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

// A query of one head as its own problem, with only its first keys.
inline std::vector<float> query_of(const Problem& problem, const std::vector<float>& values, int64_t query,
                                   int64_t keys) {
    std::vector<float> part = batch_of(problem, values, 0, keys);
    part.erase(part.begin() + (query + 1) * problem.dim, part.begin() + problem.queries * problem.dim);
    part.erase(part.begin(), part.begin() + query * problem.dim);
    return part;
}

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
