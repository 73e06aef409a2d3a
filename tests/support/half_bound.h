// A row of attention in float64, and the largest allowed error of a half-precision kernel.
//
// Let u = 2^-8 for bf16 and 2^-11 for fp16, p the weights of the row, A the same mean of |V| as O is of V, c the scale
// of exponents of 2, and S the largest sum|q||k| of a visible key. Then:
//   scores     of d columns are sums in float32; each addition may lose two units in the last place, or what
//              tensor cores cut off: an exponent is off by e = (d + 20) * 2^-22 * c * S, and a weight by 2^e - 1. The
//              sum of weights has the same errors, so that O is off by 2^e - 1 times A + |O|.
//   weights    are rounded to the type before the second product, by u of each; fp16 weights below its normal
//              numbers by 2^-25, where the row's largest is at least 2^-8; their sum takes them unrounded: the error
//              is u * A, plus 2^-25 times the number of keys times the largest |V|.
//   sums       have as many terms as there are keys, in float32.
//   O          is rounded: by u * |O|, or half the least denormal.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "src/base/parallel.h"
#include "src/problem/problem.h"
#include "src/problem/tensor.h"
#include "src/problem/words.h"
#include "tests/support/problems.h"
#include "tests/support/settings.h"

namespace hw4 {

struct HalfRow {
    std::vector<double> exact;
    std::vector<double> bound; // for each value
    double logsumexp = -HUGE_VAL;
    double logsumexp_bound = 0;
};

class HalfRows {
public:
    // The inputs as the kernel rounds them.
    HalfRows(const Problem& problem, Element element, const std::vector<float>& inputs)
        : problem_(problem), element_(element), inputs_(inputs.size()) {
        round_all(element, inputs.data(), inputs.size(), inputs_.data());
    }

    HalfRow row(int64_t batch, int64_t head, int64_t query) const {
        const auto dim = static_cast<size_t>(problem_.dim);
        const int64_t kv_head = head * problem_.kv_heads / problem_.heads;
        const float* const q = operand(0).of(batch, head) + static_cast<size_t>(query) * dim;
        const float* const k = operand(1).of(batch, kv_head);
        const float* const v = operand(2).of(batch, kv_head);
        const auto seen = static_cast<size_t>(
            std::min(visible_keys(problem_.mask, problem_.queries, problem_.keys, query), problem_.keys));
        HalfRow row{std::vector<double>(dim), std::vector<double>(dim)};
        if (seen == 0) return row;

        const double scale = 1 / std::sqrt(static_cast<double>(dim));
        std::vector<double> weights(seen);
        double reach = 0; // S
        for (size_t key = 0; key < seen; ++key) {
            double score = 0;
            double magnitudes = 0;
            for (size_t t = 0; t < dim; ++t) {
                const double product = double{q[t]} * double{k[key * dim + t]};
                score += product;
                magnitudes += std::fabs(product);
            }
            weights[key] = score * scale;
            reach = std::max(reach, magnitudes * scale);
        }
        const double top = *std::max_element(weights.begin(), weights.end());
        double sum = 0;
        for (double& weight : weights) sum += weight = std::exp(weight - top);
        row.logsumexp = top + std::log(sum);
        std::vector<double> means(dim); // A
        double largest = 0;
        for (size_t key = 0; key < seen; ++key) {
            const double weight = weights[key] / sum; // once: the compiler would divide for every column
            for (size_t t = 0; t < dim; ++t) {
                const double value = v[key * dim + t];
                row.exact[t] += weight * value;
                means[t] += weight * std::fabs(value);
                largest = std::max(largest, std::fabs(value));
            }
        }

        const auto keys = static_cast<double>(seen);
        const double unit = element_ == Element::bf16 ? 0x1p-8 : 0x1p-11;
        const double least = element_ == Element::bf16 ? 0x1p-134 : 0x1p-25;
        const double exponent = (static_cast<double>(dim) + 20) * 0x1p-22 * reach; // in units of e
        const double of_weight = std::expm1(exponent) + 0x1p-20;
        const double of_sums = (keys + 32) * 0x1p-23;
        const double sunk = element_ == Element::fp16 ? keys * 0x1p-25 * largest : 0;
        for (size_t t = 0; t < dim; ++t) {
            const double both = means[t] + std::fabs(row.exact[t]);
            const double before = (of_weight + of_sums) * both + unit * means[t] * (1 + of_weight) + sunk;
            row.bound[t] = before + unit * (std::fabs(row.exact[t]) + before) + least;
        }
        row.logsumexp_bound = exponent + of_sums + 0x1p-20 + 0x1p-22 * std::fabs(row.logsumexp);
        return row;
    }

    // Looks at all rows, or at some if there are many: heads of all batches together. Keeps them for another kernel.
    testing::AssertionResult hold(const std::vector<float>& out) {
        constexpr double kMostProducts = 3e8;
        const int64_t rows = problem_.output_rows();
        const double products = static_cast<double>(rows) * static_cast<double>(problem_.keys * problem_.dim);
        const int64_t step = products < kMostProducts ? 1 : static_cast<int64_t>(products / kMostProducts) + 1;
        known_.resize(static_cast<size_t>((rows + step - 1) / step));
        std::atomic<int64_t> next{0};
        std::atomic<int64_t> wrong{-1};
        on_threads(static_cast<int>(std::clamp<int64_t>(rows / step / 8, 1, reference_threads())), [&] {
            for (int64_t i = 0; (i = next.fetch_add(1)) * step < rows;) {
                HalfRow& wanted = known_[static_cast<size_t>(i)];
                if (wanted.exact.empty()) wanted = row(i * step);
                if (!holds(out, wanted, i * step)) wrong = i * step;
            }
        });
        if (wrong < 0) return testing::AssertionSuccess();
        return testing::AssertionFailure() << sizes_of(problem_).second << ", " << name_of(problem_.mask) << ", "
                                           << name_of(element_) << ": " << first_wrong(out, wrong);
    }

    HalfRow row(int64_t index) const {
        const int64_t unit = index / problem_.queries;
        return row(unit / problem_.heads, unit % problem_.heads, index % problem_.queries);
    }

    void expect_logsumexps(const Contract& contract, const std::vector<RowStatistics>& rows) const {
        std::vector<float> sums(rows.size());
        logsumexps(contract, problem_, rows.data(), problem_.output_rows(), sums.data());
        for (size_t i = 0; i < rows.size(); ++i) {
            const HalfRow wanted = row(static_cast<int64_t>(i));
            if (wanted.logsumexp == -HUGE_VAL)
                ASSERT_EQ(sums[i], -HUGE_VALF) << i;
            else
                ASSERT_NEAR(sums[i], wanted.logsumexp, wanted.logsumexp_bound) << i;
        }
    }

private:
    Matrix<const float> operand(size_t index) const {
        return operand_at<const float>(problem_, problem_.operation->inputs, index, inputs_.data(),
                                       static_cast<size_t>(problem_.dim));
    }

    // The value is of the type and within the bound; a NaN is not.
    static bool right(Element element, float got, double exact, double bound) {
        return rounded_to(element, got) == got && std::fabs(double{got} - exact) <= bound;
    }

    bool holds(const std::vector<float>& out, const HalfRow& wanted, int64_t index) const {
        const float* const got = out.data() + index * problem_.dim;
        for (size_t t = 0; t < wanted.exact.size(); ++t)
            if (!right(element_, got[t], wanted.exact[t], wanted.bound[t])) return false;
        return true;
    }

    std::string first_wrong(const std::vector<float>& out, int64_t index) const {
        const HalfRow wanted = row(index);
        const float* const got = out.data() + index * problem_.dim;
        for (size_t t = 0; t < wanted.exact.size(); ++t)
            if (!right(element_, got[t], wanted.exact[t], wanted.bound[t]))
                return "row " + std::to_string(index) + ", column " + std::to_string(t) + ": got " +
                       std::to_string(got[t]) + ", wanted " + std::to_string(wanted.exact[t]) + " +- " +
                       std::to_string(wanted.bound[t]);
        return "";
    }

    Problem problem_;
    Element element_;
    std::vector<float> inputs_;
    std::vector<HalfRow> known_; // the rows that hold() compares
};

// Scores so far apart that a row is the value of its largest score, wherever that score is.
template <class Attend>
void expect_value_of_the_largest(int64_t queries, int64_t dim, int power, const Attend& attend) {
    const Problem problem = Problem(1, queries, dim).of_keys(200);
    for (const int64_t order : {1, 7, 199}) // of the scores: rising, mixed, falling
        for (const bool negative : {false, true}) {
            std::vector<float> values(problem.floats_in(problem.input_rows()));
            each_query(values, problem, [&](float* q, int64_t) { q[0] = std::ldexp(1.0f, power - 8); });
            int64_t winner = 0;
            each_key(values, problem, [&](float* key, float* value, int64_t index) {
                const int64_t rank = index * order % problem.keys - (negative ? problem.keys : 0);
                key[0] = std::ldexp(static_cast<float>(rank), 8);
                for (int64_t t = 0; t < dim; ++t) value[t] = static_cast<float>((index + t) % 100);
                if (rank == (negative ? -1 : problem.keys - 1)) winner = index;
            });
            const std::vector<float> out = attend(problem, values);
            for (const int64_t row : {int64_t{0}, queries / 2, queries - 1})
                for (int64_t t = 0; t < dim; ++t)
                    ASSERT_EQ(out[static_cast<size_t>(row * dim + t)], static_cast<float>((winner + t) % 100))
                        << dim << " " << power << " " << order << " " << negative;
        }
}

} // namespace hw4
