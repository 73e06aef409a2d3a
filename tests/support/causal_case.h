// A case with the causal mask, and the rows that its output must have.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/problem/tensor.h"
#include "tests/support/attention_case.h"
#include "tests/support/digit_tiles.h"
#include "tests/support/problems.h"

namespace hw4 {

// Q, K and V in memory as in a file.
struct CausalCase {
    Problem problem;
    std::string name;
    std::vector<float> qkv;

    CausalCase(const Problem& p, const Distribution& values)
        : problem(p), name(sizes_of(p).second + " " + spelling_of(values)),
          qkv(static_cast<size_t>(p.batches) * p.batch_input_floats()) {
        fill_case_values({p, values, 3}, 0, qkv.size(), qkv.data());
    }

    Matrix<float> in(size_t operand) {
        return operand_at(problem, kForward.inputs, operand, qkv.data(), static_cast<size_t>(problem.dim));
    }
    // The rows of a batch and query head: the head's own, or the key-value head's that it shares.
    const float* of(size_t operand, int64_t batch, int64_t head) {
        return in(operand).of(batch, operand == 0 ? head : head / (problem.heads / problem.kv_heads));
    }

    // Rows [first, end) of one unit with the keys before `end`: a case of fewer queries than keys.
    CausalCase rows_between(int64_t first, int64_t end) {
        CausalCase some(causal_problem(end - first, end, problem.dim), CaseKind::uniform);
        const int64_t dim = problem.dim;
        float* to = std::copy(of(0, 0, 0) + first * dim, of(0, 0, 0) + end * dim, some.qkv.data());
        to = std::copy(of(1, 0, 0), of(1, 0, 0) + end * dim, to);
        std::copy(of(2, 0, 0), of(2, 0, 0) + end * dim, to);
        return some;
    }

    // Under fixed a tile of K or V has one scale for all its keys. This gives the largest number to the first key of
    // each tile, so that the visible keys of every row determine the same scale. fixed16 scales a row by all of K, so
    // the first key of all gets the largest number of K.
    CausalCase& with_the_largest_first(const Contract& contract) {
        const int64_t dim = problem.dim;
        const int64_t tile = tile_keys_of(contract);
        for (const size_t operand : {1, 2})
            for (int64_t unit = 0; unit < problem.batches * problem.kv_heads; ++unit) {
                float* const rows = in(operand).of(unit / problem.kv_heads, unit % problem.kv_heads);
                for (int64_t key = 0; key < problem.keys; key += tile) {
                    const bool of_all = key == 0 && &contract == &kFixed16;
                    const int64_t end = of_all ? problem.keys : std::min(key + tile, problem.keys);
                    for (const float* x = rows + key * dim; x != rows + end * dim; ++x)
                        rows[key * dim] = std::max(rows[key * dim], std::fabs(*x));
                }
            }
        return *this;
    }

    // Computes every row alone over the keys 0 to i + N_k - N_q, as an unmasked case of one query.
    std::vector<float> by_definition(const Contract& contract) {
        std::vector<float> out(static_cast<size_t>(problem.batches) * problem.batch_output_floats(), 0.0f);
        float* row = out.data();
        for (int64_t unit = 0; unit < problem.units(); ++unit) {
            const int64_t batch = unit / problem.heads;
            const int64_t head = unit % problem.heads;
            for (int64_t query = 0; query < problem.queries; ++query, row += problem.dim) {
                const int64_t last = query + problem.keys - problem.queries;
                if (last < 0) continue;
                contract.find(kForward)->reference(
                    {1,
                     last + 1,
                     problem.dim,
                     {of(0, batch, head) + query * problem.dim, of(1, batch, head), of(2, batch, head)},
                     {row}});
            }
        }
        return out;
    }
};

} // namespace hw4
