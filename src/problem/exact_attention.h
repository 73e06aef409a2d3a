// Attention and its gradients in float64, row by row: the values that outputs are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "src/problem/mask.h"
#include "src/problem/problem.h"
#include "src/problem/tensor.h"

namespace hw4 {

using Doubles = std::vector<double>;

// A comparison spends its time in these loops, so they are compiled for each vector unit; all versions do the same
// operations in the same order. The runtimes of sanitizers are not ready when such a function is chosen.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_VECTOR_UNIT __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_VECTOR_UNIT
#endif

// Summed in lanes, so that it vectorises.
[[gnu::always_inline]] inline double dot(const float* a, const float* b, int64_t count) {
    constexpr int kLanes = 8;
    double lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += double{a[i + lane]} * double{b[i + lane]};
    double sum = 0;
    for (; i < count; ++i) sum += double{a[i]} * double{b[i]};
    for (const double lane : lanes) sum += lane;
    return sum;
}

FOR_EACH_VECTOR_UNIT static void dots(const float* row, const float* rows, int64_t dim, double factor, Doubles& out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = factor * dot(row, rows + static_cast<int64_t>(i) * dim, dim);
}

// Adds the rows, each times its factor, one after the other; each sum stays in a register for four rows.
FOR_EACH_VECTOR_UNIT static void add_rows(Doubles& sums, const Doubles& factors, const float* rows) {
    const size_t dim = sums.size();
    size_t i = 0;
    for (; i + 4 <= factors.size(); i += 4, rows += 4 * dim)
        for (size_t x = 0; x < dim; ++x)
            sums[x] = sums[x] + factors[i] * double{rows[x]} + factors[i + 1] * double{rows[dim + x]} +
                      factors[i + 2] * double{rows[2 * dim + x]} + factors[i + 3] * double{rows[3 * dim + x]};
    for (; i < factors.size(); ++i, rows += dim)
        for (size_t x = 0; x < dim; ++x) sums[x] += factors[i] * double{rows[x]};
}

#undef FOR_EACH_VECTOR_UNIT

// Rows of queries and of keys are counted through heads and batches.
class ExactAttention {
public:
    // The maximum and the sum that define the weights of a row, and D, the sum of weight * dP.
    struct RowFacts {
        double largest = 0; // score
        double whole = 0;   // sum of exp(score - largest)
        double D = 0;

        double weight(double score) const { return std::exp(score - largest) / whole; }
    };

    // `inputs` are the inputs of the problem's operation, one after the other. `keys`: the number of a head's rows of K
    // and V that are its keys. `problem` and `inputs` have to outlive this object.
    ExactAttention(const Problem& problem, const float* inputs, int64_t keys)
        : problem_(problem), inputs_(inputs), keys_(keys),
          scale_(problem.scale > 0 ? problem.scale : 1 / std::sqrt(static_cast<double>(problem.key_dim()))) {}

    int64_t query_rows() const { return problem_.units() * problem_.queries; }
    int64_t key_rows() const { return problem_.batches * problem_.kv_heads * problem_.keys; }
    // The rows of queries that share a head of keys.
    int64_t rows_of_group() const { return problem_.heads / problem_.kv_heads * problem_.queries; }

    // A row of an output; `outputs` has the layout of the operation's outputs.
    template <class T>
    T* output_row(T* outputs, size_t operand, int64_t row) const {
        return row_at(problem_.operation->outputs, operand, outputs, row);
    }

    // A row of O.
    Doubles output(int64_t row) const {
        const Query query = query_of(row);
        Doubles weights;
        weights_of(query, weights);
        Doubles sums(static_cast<size_t>(problem_.dim));
        add_rows(sums, weights, query.v);
        return sums;
    }

    // A row of dQ, and the facts of the row that key_gradients() needs.
    Doubles query_gradient(int64_t row, RowFacts& facts) const {
        const Query query = query_of(row);
        Doubles weights;
        facts = weights_of(query, weights);
        Doubles slopes(weights.size()); // dP
        dots(output_gradient(row), query.v, problem_.dim, 1, slopes);
        for (size_t key = 0; key < slopes.size(); ++key) facts.D += weights[key] * slopes[key];
        for (size_t key = 0; key < slopes.size(); ++key) slopes[key] = scale_ * weights[key] * (slopes[key] - facts.D);
        Doubles sums(static_cast<size_t>(problem_.dim));
        add_rows(sums, slopes, query.k);
        return sums;
    }

    // A row of dK and of dV. Computes scores again, so pairs need no memory. `facts`: of the group's rows of queries.
    std::pair<Doubles, Doubles> key_gradients(int64_t row, const RowFacts* facts) const {
        const int64_t key = row % problem_.keys;
        const int64_t first = row / problem_.keys * rows_of_group();
        Doubles dK(static_cast<size_t>(problem_.dim));
        Doubles dV = dK;
        for (int64_t i = 0; i < rows_of_group(); ++i) {
            const Query query = query_of(first + i);
            if (key >= query.seen) continue;
            const float* const d_o = output_gradient(first + i);
            const double weight = facts[i].weight(scale_ * dot(query.q, query.k + key * problem_.dim, problem_.dim));
            const double slope = dot(d_o, query.v + key * problem_.dim, problem_.dim);
            add(dK, scale_ * weight * (slope - facts[i].D), query.q);
            add(dV, weight, d_o);
        }
        return {dK, dV};
    }

private:
    // A query and the keys of its head that it sees.
    struct Query {
        const float* q;
        const float* k;
        const float* v;
        int64_t seen; // keys
    };

    template <class T>
    T* row_at(const List<Operand>& list, size_t operand, T* base, int64_t row) const {
        const int64_t rows = problem_.head_rows(list[operand]);
        const int64_t heads = problem_.heads_of(list[operand]);
        const int64_t head = row / rows;
        return operand_at(problem_, list, operand, base, static_cast<size_t>(problem_.dim))
                   .of(head / heads, head % heads) +
               row % rows * problem_.dim;
    }
    const float* input_row(size_t operand, int64_t row) const {
        return row_at(problem_.operation->inputs, operand, inputs_, row);
    }
    const float* output_gradient(int64_t row) const { return input_row(3, row); }

    Query query_of(int64_t row) const {
        const int64_t query = row % problem_.queries;
        const VisibleKeys sight = sight_of(problem_.mask, problem_.queries, keys_, problem_.window);
        const int64_t keys = row / rows_of_group() * problem_.keys; // the head's first row of keys
        const int64_t hidden = sight.from(query) * problem_.dim;
        return {input_row(0, row), input_row(1, keys) + hidden, input_row(2, keys) + hidden,
                sight.of(query) - sight.from(query)};
    }

    // The weights of the keys that the query sees.
    RowFacts weights_of(const Query& query, Doubles& weights) const {
        weights.resize(static_cast<size_t>(query.seen));
        dots(query.q, query.k, problem_.dim, scale_, weights);
        RowFacts facts;
        facts.largest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
        for (double& weight : weights) facts.whole += weight = std::exp(weight - facts.largest);
        for (double& weight : weights) weight /= facts.whole;
        return facts;
    }

    static void add(Doubles& sums, double factor, const float* row) {
        for (size_t x = 0; x < sums.size(); ++x) sums[x] += factor * double{row[x]};
    }

    const Problem& problem_;
    const float* inputs_;
    const int64_t keys_;
    const double scale_;
};

} // namespace hw4
