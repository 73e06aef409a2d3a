#include "src/bench/naive.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "src/bench/workbench.h"
#include "src/step/team.h"

namespace hw4::bench {
namespace {

constexpr int64_t kBlock = 16; // rows or keys per thread at a time

// Adds in eight chains, which suit any vector unit.
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

struct Rows {
    float* first;
    int64_t step;

    float* operator[](int64_t row) const { return first + row * step; }
};

// The rows of a unit's tensors, in the operation's order.
struct Unit {
    Rows in[kMostInputs], out[kMostOutputs], weights, gradients;

    Unit(const step::Attention& of, int64_t unit, float* all_weights, float* all_gradients) {
        const Problem& problem = of.problem;
        const auto rows = [&](const Tensor& tensor) {
            return Rows{static_cast<float*>(tensor.at(unit / problem.heads, unit % problem.heads)), tensor.row};
        };
        std::transform(std::begin(of.in), std::end(of.in), in, rows);
        std::transform(std::begin(of.out), std::end(of.out), out, rows);
        const auto scores = [&](float* all) {
            return Rows{all == nullptr ? nullptr : all + unit * problem.queries * problem.keys, problem.keys};
        };
        weights = scores(all_weights);
        gradients = scores(all_gradients);
    }
};

// Softmax of the first `seen` scores; the rest becomes 0.
void softmax(float* scores, int64_t seen, int64_t keys) {
    std::fill(scores + seen, scores + keys, 0.0f);
    if (seen == 0) return;
    const float largest = *std::max_element(scores, scores + seen);
    float sum = 0;
    for (int64_t key = 0; key < seen; ++key) sum += scores[key] = std::exp(scores[key] - largest);
    for (int64_t key = 0; key < seen; ++key) scores[key] /= sum;
}

// Rows `first` to `end` of O.
void forward(const Problem& problem, const Unit& of, float scale, int64_t first, int64_t end) {
    const auto& [q, k, v, unused] = of.in;
    const Rows& o = of.out[0];
    for (int64_t row = first; row < end; ++row) {
        const int64_t seen = visible_keys(problem.mask, problem.queries, problem.keys, row);
        float* const weights = of.weights[row];
        for (int64_t key = 0; key < seen; ++key) weights[key] = scale * dot(q[row], k[key], problem.dim);
        softmax(weights, seen, problem.keys);
        std::fill_n(o[row], problem.dim, 0.0f);
        for (int64_t key = 0; key < seen; ++key) add_times(o[row], weights[key], v[key], problem.dim);
    }
}

// Rows of dS and dQ.
void backward_of_queries(const Problem& problem, const Unit& of, float scale, int64_t first, int64_t end) {
    const auto& [q, k, v, d_o] = of.in;
    const Rows& dq = of.out[0];
    for (int64_t row = first; row < end; ++row) {
        const float* const weights = of.weights[row];
        float* const gradients = of.gradients[row];
        for (int64_t key = 0; key < problem.keys; ++key) gradients[key] = dot(d_o[row], v[key], problem.dim);
        const float together = dot(weights, gradients, problem.keys);
        std::fill_n(dq[row], problem.dim, 0.0f);
        for (int64_t key = 0; key < problem.keys; ++key) {
            gradients[key] = weights[key] * (gradients[key] - together);
            add_times(dq[row], scale * gradients[key], k[key], problem.dim);
        }
    }
}

// Rows of dK and dV.
void backward_of_keys(const Problem& problem, const Unit& of, float scale, int64_t first, int64_t end) {
    const Rows& q = of.in[0];
    const Rows& d_o = of.in[3];
    const auto& [dq, dk, dv] = of.out;
    for (int64_t key = first; key < end; ++key) {
        std::fill_n(dk[key], problem.dim, 0.0f);
        std::fill_n(dv[key], problem.dim, 0.0f);
    }
    for (int64_t row = 0; row < problem.queries; ++row)
        for (int64_t key = first; key < end; ++key) {
            add_times(dk[key], scale * of.gradients[row][key], q[row], problem.dim);
            add_times(dv[key], of.weights[row][key], d_o[row], problem.dim);
        }
}

class CpuNaive : public NaiveAttention {
public:
    explicit CpuNaive(int threads) : team_(threads) {}

    void compute(const step::Attention& of, void* weights, void* gradients, void*) override {
        if (of.in[0].element != Element::float32)
            throw Unsupported("naive on the CPU takes float32, not " + std::string(name_of(of.in[0].element)));
        const Problem& problem = of.problem;
        const float scale = 1.0f / std::sqrt(static_cast<float>(problem.dim));
        const auto for_blocks = [&](int64_t rows, const auto& take) { // of rows in every unit
            const int64_t blocks = (rows + kBlock - 1) / kBlock;
            team_.each(problem.units() * blocks, [&](int64_t task, int) {
                const Unit of_unit(of, task / blocks, static_cast<float*>(weights), static_cast<float*>(gradients));
                const int64_t first = task % blocks * kBlock;
                take(problem, of_unit, scale, first, std::min(first + kBlock, rows));
            });
        };
        if (!of.is_backward()) return for_blocks(problem.queries, forward);
        for_blocks(problem.queries, backward_of_queries);
        for_blocks(problem.keys, backward_of_keys);
    }

private:
    step::Team team_; // for all calls
};

} // namespace

std::unique_ptr<NaiveAttention> cpu_naive(int threads) { return std::make_unique<CpuNaive>(threads); }

} // namespace hw4::bench
