#include "src/bench/naive.h"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace hw4::bench {
namespace {

constexpr int64_t kBlock = 16; // rows or keys per thread at a time

// In eight chains, which suit any vector unit.
float dot(const float* a, const float* b, int64_t count) {
    constexpr int64_t kChains = 8;
    float sums[kChains] = {};
    int64_t i = 0;
    for (; i + kChains <= count; i += kChains)
        for (int64_t chain = 0; chain < kChains; ++chain) sums[chain] += a[i + chain] * b[i + chain];
    float sum = 0;
    for (; i < count; ++i) sum += a[i] * b[i];
    for (const float chain : sums) sum += chain;
    return sum;
}

void add_times(float* to, float factor, const float* from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

float scale_of(const Problem& problem) { return 1.0f / std::sqrt(static_cast<float>(problem.dim)); }

// Calls take(unit, first, end) for all blocks of `rows` rows in every unit, on all threads.
template <class Take>
void for_blocks(const NaiveOperands& operands, int64_t rows, const Take& take) {
    const int64_t blocks = (rows + kBlock - 1) / kBlock;
    std::atomic<int64_t> next{0};
    on_threads(operands.crew, operands.threads, [&] {
        for (int64_t task = 0; (task = next.fetch_add(1)) < operands.problem.units() * blocks;) {
            const int64_t first = task % blocks * kBlock;
            take(task / blocks, first, std::min(first + kBlock, rows));
        }
    });
}

// The unit's matrix; index it by [row].
template <class T>
T* unit_of(const NaiveOperands& operands, const Matrix<T>& matrix, int64_t unit) {
    return matrix.of(unit / operands.problem.heads, unit % operands.problem.heads);
}

float* scores_of(const NaiveOperands& operands, float* scores, int64_t unit, int64_t row) {
    const Problem& problem = operands.problem;
    return scores + (unit * problem.queries + row) * problem.keys;
}

// Softmax of the first `seen` scores; the rest becomes 0.
void softmax(float* scores, int64_t seen, int64_t keys) {
    std::fill(scores + seen, scores + keys, 0.0f);
    if (seen == 0) return;
    const float largest = *std::max_element(scores, scores + seen);
    float sum = 0;
    for (int64_t key = 0; key < seen; ++key) sum += scores[key] = std::exp(scores[key] - largest);
    for (int64_t key = 0; key < seen; ++key) scores[key] /= sum;
}

} // namespace

void naive_forward(const NaiveOperands& operands) {
    const Problem& problem = operands.problem;
    const int64_t dim = problem.dim;
    const float scale = scale_of(problem);
    for_blocks(operands, problem.queries, [&](int64_t unit, int64_t first, int64_t end) {
        const float* const q = unit_of(operands, operands.q, unit);
        const float* const k = unit_of(operands, operands.k, unit);
        const float* const v = unit_of(operands, operands.v, unit);
        float* const o = unit_of(operands, operands.o, unit);
        for (int64_t row = first; row < end; ++row) {
            const int64_t seen = visible_keys(problem.mask, problem.queries, problem.keys, row);
            float* const weights = scores_of(operands, operands.weights, unit, row);
            for (int64_t key = 0; key < seen; ++key) weights[key] = scale * dot(q + row * dim, k + key * dim, dim);
            softmax(weights, seen, problem.keys);
            std::fill_n(o + row * dim, dim, 0.0f);
            for (int64_t key = 0; key < seen; ++key) add_times(o + row * dim, weights[key], v + key * dim, dim);
        }
    });
}

void naive_backward(const NaiveOperands& operands) {
    const Problem& problem = operands.problem;
    const int64_t dim = problem.dim;
    const float scale = scale_of(problem);
    for_blocks(operands, problem.queries, [&](int64_t unit, int64_t first, int64_t end) {
        const float* const k = unit_of(operands, operands.k, unit);
        const float* const v = unit_of(operands, operands.v, unit);
        const float* const d_o = unit_of(operands, operands.d_o, unit);
        float* const dq = unit_of(operands, operands.dq, unit);
        for (int64_t row = first; row < end; ++row) {
            const float* const weights = scores_of(operands, operands.weights, unit, row);
            float* const gradients = scores_of(operands, operands.gradients, unit, row);
            for (int64_t key = 0; key < problem.keys; ++key) gradients[key] = dot(d_o + row * dim, v + key * dim, dim);
            const float together = dot(weights, gradients, problem.keys);
            std::fill_n(dq + row * dim, dim, 0.0f);
            for (int64_t key = 0; key < problem.keys; ++key) {
                gradients[key] = weights[key] * (gradients[key] - together);
                add_times(dq + row * dim, scale * gradients[key], k + key * dim, dim);
            }
        }
    });
    for_blocks(operands, problem.keys, [&](int64_t unit, int64_t first, int64_t end) {
        const float* const q = unit_of(operands, operands.q, unit);
        const float* const d_o = unit_of(operands, operands.d_o, unit);
        float* const dk = unit_of(operands, operands.dk, unit);
        float* const dv = unit_of(operands, operands.dv, unit);
        std::fill(dk + first * dim, dk + end * dim, 0.0f);
        std::fill(dv + first * dim, dv + end * dim, 0.0f);
        for (int64_t row = 0; row < problem.queries; ++row) {
            const float* const weights = scores_of(operands, operands.weights, unit, row);
            const float* const gradients = scores_of(operands, operands.gradients, unit, row);
            for (int64_t key = first; key < end; ++key) {
                add_times(dk + key * dim, scale * gradients[key], q + row * dim, dim);
                add_times(dv + key * dim, weights[key], d_o + row * dim, dim);
            }
        }
    });
}

} // namespace hw4::bench
