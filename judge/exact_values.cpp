#include "judge/exact_values.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "src/base/parallel.h"
#include "src/problem/matrix.h"

namespace hw4 {
namespace {

// In lanes, so that it vectorises.
double dot(const float* a, const float* b, int64_t count) {
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

struct Row {
    const float* q;
    const float* k;
    const float* v;
    int64_t seen; // keys
    int64_t dim;
    float* out;
};

void attend(const Row& row, std::vector<double>& weights, std::vector<double>& sums) {
    weights.resize(static_cast<size_t>(row.seen));
    sums.assign(static_cast<size_t>(row.dim), 0.0);
    const double scale = 1 / std::sqrt(static_cast<double>(row.dim));
    for (size_t key = 0; key < weights.size(); ++key)
        weights[key] = scale * dot(row.q, row.k + static_cast<int64_t>(key) * row.dim, row.dim);
    const double largest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    double whole = 0;
    for (size_t key = 0; key < weights.size(); ++key) {
        const double weight = std::exp(weights[key] - largest);
        const float* const v = row.v + static_cast<int64_t>(key) * row.dim;
        whole += weight;
        for (size_t x = 0; x < sums.size(); ++x) sums[x] += weight * double{v[x]};
    }
    for (size_t x = 0; x < sums.size(); ++x) row.out[x] = weights.empty() ? 0.0f : static_cast<float>(sums[x] / whole);
}

} // namespace

std::vector<float> exact_output(const Problem& problem, const std::vector<float>& batch) {
    std::vector<float> out(problem.batch_output_floats());
    const auto floats = static_cast<size_t>(problem.dim);
    const auto in = [&](size_t operand) {
        return operand_at(problem, problem.operation->inputs, operand, batch.data(), floats);
    };
    const int64_t group = problem.heads / problem.kv_heads;
    std::atomic<int64_t> next{0};
    const int64_t rows = problem.heads * problem.queries;
    on_threads(static_cast<int>(std::min<int64_t>(available_processors(), rows)), [&] {
        std::vector<double> weights;
        std::vector<double> sums;
        for (int64_t row = 0; (row = next.fetch_add(1)) < rows;) {
            const int64_t head = row / problem.queries;
            const int64_t query = row % problem.queries;
            attend({in(0).of(0, head) + query * problem.dim, in(1).of(0, head / group), in(2).of(0, head / group),
                    visible_keys(problem.mask, problem.queries, problem.keys, query), problem.dim,
                    out.data() + row * problem.dim},
                   weights, sums);
        }
    });
    return out;
}

void ExactValues::compute_next() {
    const Problem& problem = input_.problem();
    std::vector<float> batch(problem.batch_input_floats());
    input_.read_rows(batch_++ * problem.batch_input_rows(), problem.batch_input_rows(), batch.data());
    round_all(element_, batch.data(), batch.size(), batch.data());
    computed_ = exact_output(problem.of_batches(1), batch);
    taken_ = 0;
}

void ExactValues::read(float* to, size_t count) {
    while (count > 0) {
        if (taken_ == computed_.size()) compute_next();
        const size_t step = std::min(count, computed_.size() - taken_);
        to = std::copy_n(computed_.data() + taken_, step, to);
        taken_ += step;
        count -= step;
    }
}

} // namespace hw4
