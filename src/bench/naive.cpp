#include "src/bench/naive.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>

#include "src/base/parallel.h"
#include "src/bench/workbench.h"

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

// A head's rows.
struct Rows {
    float* first;
    int64_t step;

    float* operator[](int64_t row) const { return first + row * step; }
};

Rows rows_of(const Problem& problem, const Tensor& tensor, int64_t unit) {
    return {static_cast<float*>(tensor.at(unit / problem.heads, unit % problem.heads)), tensor.row};
}

Rows scores_of(const Problem& problem, void* scores, int64_t unit) {
    return {static_cast<float*>(scores) + unit * problem.queries * problem.keys, problem.keys};
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

class CpuNaive : public NaiveAttention {
public:
    explicit CpuNaive(int threads) : threads_(threads) {}

    void compute(const step::Attention& of, void* weights, void* gradients, void*) override {
        if (of.in[0].element != Element::float32)
            throw Unsupported("naive on the CPU takes float32, not " + std::string(name_of(of.in[0].element)));
        if (!of.is_backward()) return forward(of, weights);
        backward_of_queries(of, weights, gradients);
        backward_of_keys(of, weights, gradients);
    }

private:
    // Calls take(unit, first, end) for all blocks of `rows` rows in every unit, on all threads.
    template <class Take>
    void for_blocks(const Problem& problem, int64_t rows, const Take& take) {
        const int64_t blocks = (rows + kBlock - 1) / kBlock;
        std::atomic<int64_t> next{0};
        on_threads(&crew_, threads_, [&] {
            for (int64_t task = 0; (task = next.fetch_add(1)) < problem.units() * blocks;) {
                const int64_t first = task % blocks * kBlock;
                take(task / blocks, first, std::min(first + kBlock, rows));
            }
        });
    }

    void forward(const step::Attention& of, void* all_weights) {
        const Problem& problem = of.problem;
        const int64_t dim = problem.dim;
        const float scale = scale_of(problem);
        for_blocks(problem, problem.queries, [&](int64_t unit, int64_t first, int64_t end) {
            const Rows q = rows_of(problem, of.in[0], unit);
            const Rows k = rows_of(problem, of.in[1], unit);
            const Rows v = rows_of(problem, of.in[2], unit);
            const Rows o = rows_of(problem, of.out[0], unit);
            const Rows of_unit = scores_of(problem, all_weights, unit);
            for (int64_t row = first; row < end; ++row) {
                const int64_t seen = visible_keys(problem.mask, problem.queries, problem.keys, row);
                float* const weights = of_unit[row];
                for (int64_t key = 0; key < seen; ++key) weights[key] = scale * dot(q[row], k[key], dim);
                softmax(weights, seen, problem.keys);
                std::fill_n(o[row], dim, 0.0f);
                for (int64_t key = 0; key < seen; ++key) add_times(o[row], weights[key], v[key], dim);
            }
        });
    }

    void backward_of_queries(const step::Attention& of, void* all_weights, void* all_gradients) {
        const Problem& problem = of.problem;
        const int64_t dim = problem.dim;
        const float scale = scale_of(problem);
        for_blocks(problem, problem.queries, [&](int64_t unit, int64_t first, int64_t end) {
            const Rows k = rows_of(problem, of.in[1], unit);
            const Rows v = rows_of(problem, of.in[2], unit);
            const Rows d_o = rows_of(problem, of.in[3], unit);
            const Rows dq = rows_of(problem, of.out[0], unit);
            for (int64_t row = first; row < end; ++row) {
                const float* const weights = scores_of(problem, all_weights, unit)[row];
                float* const gradients = scores_of(problem, all_gradients, unit)[row];
                for (int64_t key = 0; key < problem.keys; ++key) gradients[key] = dot(d_o[row], v[key], dim);
                const float together = dot(weights, gradients, problem.keys);
                std::fill_n(dq[row], dim, 0.0f);
                for (int64_t key = 0; key < problem.keys; ++key) {
                    gradients[key] = weights[key] * (gradients[key] - together);
                    add_times(dq[row], scale * gradients[key], k[key], dim);
                }
            }
        });
    }

    void backward_of_keys(const step::Attention& of, void* all_weights, void* all_gradients) {
        const Problem& problem = of.problem;
        const int64_t dim = problem.dim;
        const float scale = scale_of(problem);
        for_blocks(problem, problem.keys, [&](int64_t unit, int64_t first, int64_t end) {
            const Rows q = rows_of(problem, of.in[0], unit);
            const Rows d_o = rows_of(problem, of.in[3], unit);
            const Rows dk = rows_of(problem, of.out[1], unit);
            const Rows dv = rows_of(problem, of.out[2], unit);
            for (int64_t key = first; key < end; ++key) {
                std::fill_n(dk[key], dim, 0.0f);
                std::fill_n(dv[key], dim, 0.0f);
            }
            for (int64_t row = 0; row < problem.queries; ++row) {
                const float* const weights = scores_of(problem, all_weights, unit)[row];
                const float* const gradients = scores_of(problem, all_gradients, unit)[row];
                for (int64_t key = first; key < end; ++key) {
                    add_times(dk[key], scale * gradients[key], q[row], dim);
                    add_times(dv[key], weights[key], d_o[row], dim);
                }
            }
        });
    }

    const int threads_;
    Crew crew_; // for all calls
};

} // namespace

std::unique_ptr<NaiveAttention> cpu_naive(int threads) { return std::make_unique<CpuNaive>(threads); }

} // namespace hw4::bench
