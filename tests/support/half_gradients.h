// Gradients in float64, and the largest allowed error of a half-precision kernel.
//
// Each gradient is a sum of products; its bound is a multiple of the same sum over the factors' magnitudes, in which a
// pair's dS counts as P * (|dO|.|v| + |dO|.A), with A the row's mean of |V|. Let u = 2^-8 for bf16 and 2^-11 for fp16:
// dP and D come from an O that is off by at most 2u A (half_bound.h); dS, or P, is rounded by u before it is
// multiplied, in fp16 below its normal numbers by 2^-25; P has its exponent's error, and sums have float32's errors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/problem/problem.h"
#include "src/problem/tensor.h"
#include "src/problem/words.h"

namespace hw4 {

class HalfGradients {
public:
    // The inputs as the kernel rounds them.
    HalfGradients(const Problem& problem, Element element, const std::vector<float>& inputs)
        : problem_(problem), element_(element), inputs_(inputs.size()),
          exact_(problem.floats_in(problem.output_rows())), bound_(exact_.size()) {
        round_all(element, inputs.data(), inputs.size(), inputs_.data());
        for (int64_t batch = 0; batch < problem.batches; ++batch)
            for (int64_t head = 0; head < problem.heads; ++head)
                for (int64_t query = 0; query < problem.queries; ++query) add_row(batch, head, query);
        for (size_t i = 0; i < exact_.size(); ++i) bound_[i] += unit() * (std::fabs(exact_[i]) + bound_[i]) + least();
    }

    testing::AssertionResult hold(const std::vector<float>& out) const {
        for (size_t i = 0; i < exact_.size(); ++i)
            if (rounded_to(element_, out[i]) != out[i] || !(std::fabs(double{out[i]} - exact_[i]) <= bound_[i]))
                return testing::AssertionFailure()
                       << sizes_of(problem_).second << ", " << name_of(problem_.mask) << ", " << name_of(element_)
                       << ": number " << i << ": got " << out[i] << ", wanted " << exact_[i] << " +- " << bound_[i];
        return testing::AssertionSuccess();
    }

private:
    double unit() const { return element_ == Element::bf16 ? 0x1p-8 : 0x1p-11; }
    double least() const { return element_ == Element::bf16 ? 0x1p-134 : 0x1p-25; }

    const float* input(size_t index, int64_t batch, int64_t head, int64_t row) const {
        const auto matrix = operand_at<const float>(problem_, problem_.operation->inputs, index, inputs_.data(),
                                                    static_cast<size_t>(problem_.dim));
        return matrix.of(batch, head) + static_cast<size_t>(row) * matrix.row;
    }
    size_t output(size_t index, int64_t batch, int64_t head, int64_t row) const {
        const auto matrix = operand_at<const double>(problem_, problem_.operation->outputs, index, exact_.data(),
                                                     static_cast<size_t>(problem_.dim));
        return static_cast<size_t>(matrix.of(batch, head) - exact_.data()) + static_cast<size_t>(row) * matrix.row;
    }

    // Adds factor * row to a gradient; `of_factor` replaces the factor in the bound, `off` is the factor's error.
    void add(size_t to, double factor, double of_factor, double off, const float* row) {
        const double sunk = element_ == Element::fp16 ? 0x1p-25 : 0;
        for (size_t t = 0; t < static_cast<size_t>(problem_.dim); ++t) {
            exact_[to + t] += factor * double{row[t]};
            bound_[to + t] += (off * of_factor + sunk) * std::fabs(double{row[t]});
        }
    }

    void add_row(int64_t batch, int64_t head, int64_t query) {
        const auto dim = static_cast<size_t>(problem_.dim);
        const int64_t kv_head = head * problem_.kv_heads / problem_.heads;
        const float* const q = input(0, batch, head, query);
        const float* const dout = input(3, batch, head, query);
        const auto seen = static_cast<size_t>(
            std::min(visible_keys(problem_.mask, problem_.queries, problem_.keys, query), problem_.keys));
        if (seen == 0) return;
        const auto dots = [&](const float* a, const float* b) {
            std::pair<double, double> sums{0, 0};
            for (size_t t = 0; t < dim; ++t) {
                sums.first += double{a[t]} * double{b[t]};
                sums.second += std::fabs(double{a[t]} * double{b[t]});
            }
            return sums;
        };
        const double scale = 1 / std::sqrt(static_cast<double>(dim));
        std::vector<double> weights(seen);
        std::vector<std::pair<double, double>> dP(seen);
        double reach = 0;
        for (size_t key = 0; key < seen; ++key) {
            const auto score = dots(q, input(1, batch, kv_head, static_cast<int64_t>(key)));
            weights[key] = score.first * scale;
            reach = std::max(reach, score.second * scale);
            dP[key] = dots(dout, input(2, batch, kv_head, static_cast<int64_t>(key)));
        }
        const double top = *std::max_element(weights.begin(), weights.end());
        double sum = 0;
        for (double& weight : weights) sum += weight = std::exp(weight - top);
        std::pair<double, double> D{0, 0};
        for (size_t key = 0; key < seen; ++key) {
            weights[key] /= sum;
            D.first += weights[key] * dP[key].first;
            D.second += weights[key] * dP[key].second;
        }
        const auto rows = static_cast<double>(std::max(problem_.queries * problem_.heads, problem_.keys));
        const double of_weight = 2 * std::expm1((static_cast<double>(dim) + 20) * 0x1p-22 * reach) + 0x1p-18;
        const double of_sums = (rows + static_cast<double>(dim) + 64) * 0x1p-22;
        for (size_t key = 0; key < seen; ++key) {
            const auto row = static_cast<int64_t>(key);
            const double P = weights[key];
            const double dS = P * (dP[key].first - D.first) * scale;
            const double of_dS = P * (dP[key].second + D.second) * scale;
            add(output(2, batch, kv_head, row), P, P, unit() + of_weight + of_sums, dout);
            const double off = 4 * unit() + of_weight + of_sums;
            add(output(0, batch, head, query), dS, of_dS, off, input(1, batch, kv_head, row));
            add(output(1, batch, kv_head, row), dS, of_dS, off, q);
        }
    }

    Problem problem_;
    Element element_;
    std::vector<float> inputs_;
    std::vector<double> exact_;
    std::vector<double> bound_;
};

} // namespace hw4
