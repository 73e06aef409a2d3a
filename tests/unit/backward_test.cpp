// The backward reference of f32: its values against gradients in double precision and differences of forward, its bytes
// against sums formed one by one in the order of the contract.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "src/contracts/f32/backward.h"
#include "src/problem/tensor.h"
#include "tests/support/attention_case.h"
#include "tests/support/problems.h"

namespace hw4 {
namespace {

using Exact = double;

// One row, full and partial segments and groups, odd d; heads that share keys, more keys than queries and fewer.
std::vector<Problem> telling_problems() {
    std::vector<Problem> list;
    for (const Mask mask : kEveryMask)
        for (const Sizes& sizes : {Sizes{1, 1, 1, 1, 1, 1}, Sizes{2, 1, 1, 3, 3, 2}, Sizes{1, 1, 1, 64, 64, 33},
                                   Sizes{1, 1, 1, 130, 130, 64}, Sizes{1, 1, 1, 1090, 1090, 2},
                                   Sizes{2, 4, 2, 65, 70, 5}, Sizes{1, 3, 1, 80, 66, 8}, Sizes{1, 2, 2, 3, 200, 4}})
            list.push_back(backward_of(sizes, mask));
    return list;
}

std::vector<float> computed(const Problem& problem, const std::vector<float>& in) {
    std::vector<float> out(static_cast<size_t>(problem.batches) * problem.batch_output_floats());
    compute_by_reference(kF32, problem, in.data(), out.data());
    return out;
}

// The operands of one query head, in any number type converted from floats.
template <class T>
struct HeadOf {
    const T* q;
    const T* k;
    const T* v;
    const T* dout;
    T* dq;
    T* dk;
    T* dv;
};

// Calls act(head, batch, query head) with of() for all seven operands.
template <class T, class Act>
void for_each_head(const Problem& problem, const std::vector<T>& in, std::vector<T>& out, Act act) {
    const auto d = static_cast<size_t>(problem.dim);
    const auto input = [&](size_t i) { return operand_at(problem, problem.operation->inputs, i, in.data(), d); };
    const auto output = [&](size_t i) { return operand_at(problem, problem.operation->outputs, i, out.data(), d); };
    for (int64_t b = 0; b < problem.batches; ++b)
        for (int64_t h = 0; h < problem.heads; ++h) {
            const int64_t kv = h / (problem.heads / problem.kv_heads);
            act(HeadOf<T>{input(0).of(b, h), input(1).of(b, kv), input(2).of(b, kv), input(3).of(b, h),
                          output(0).of(b, h), output(1).of(b, kv), output(2).of(b, kv)},
                b, h);
        }
}

Exact exact_dot(const Exact* a, const Exact* b, int64_t d) {
    Exact sum = 0;
    for (int64_t t = 0; t < d; ++t) sum += a[t] * b[t];
    return sum;
}

// The probabilities of a row.
std::vector<Exact> exact_row(const Problem& problem, const HeadOf<Exact>& head, int64_t i) {
    std::vector<Exact> p(static_cast<size_t>(visible_keys(problem.mask, problem.queries, problem.keys, i)));
    Exact most = -HUGE_VAL;
    for (size_t j = 0; j < p.size(); ++j) {
        p[j] = exact_dot(head.q + i * problem.dim, head.k + static_cast<int64_t>(j) * problem.dim, problem.dim) /
               std::sqrt(static_cast<Exact>(problem.dim));
        most = std::max(most, p[j]);
    }
    Exact sum = 0;
    for (Exact& x : p) sum += x = std::exp(x - most);
    for (Exact& x : p) x /= sum;
    return p;
}

// Textbook formulas, in any order.
std::vector<Exact> exact_gradients(const Problem& problem, const std::vector<float>& in) {
    const std::vector<Exact> exact_in(in.begin(), in.end());
    std::vector<Exact> out(static_cast<size_t>(problem.batches) * problem.batch_output_floats());
    const Exact g = 1 / std::sqrt(static_cast<Exact>(problem.dim));
    const int64_t d = problem.dim;
    for_each_head(problem, exact_in, out, [&](const HeadOf<Exact>& head, int64_t, int64_t) {
        for (int64_t i = 0; i < problem.queries; ++i) {
            const std::vector<Exact> p = exact_row(problem, head, i);
            const Exact* dout = head.dout + i * d;
            std::vector<Exact> dp(p.size());
            Exact mean = 0;
            for (size_t j = 0; j < p.size(); ++j) {
                dp[j] = exact_dot(dout, head.v + static_cast<int64_t>(j) * d, d);
                mean += p[j] * dp[j];
            }
            for (size_t at = 0; at < p.size(); ++at) {
                const auto j = static_cast<int64_t>(at);
                const Exact ds = p[at] * (dp[at] - mean) * g;
                for (int64_t x = 0; x < d; ++x) {
                    head.dq[i * d + x] += ds * head.k[j * d + x];
                    head.dk[j * d + x] += ds * head.q[i * d + x];
                    head.dv[j * d + x] += p[at] * dout[x];
                }
            }
        }
    });
    return out;
}

// The largest error of each of dQ, dK, dV relative to its own largest magnitude.
double largest_error(const Problem& problem, const std::vector<float>& got, const std::vector<Exact>& want) {
    double worst = 0;
    const auto batch = static_cast<int64_t>(problem.batch_output_floats());
    int64_t start = 0;
    for (const Operand& operand : problem.operation->outputs) {
        const int64_t count = problem.rows_of(operand) * problem.dim;
        Exact error = 0;
        Exact most = 0;
        for (int64_t b = 0; b < problem.batches; ++b)
            for (int64_t i = b * batch + start; i < b * batch + start + count; ++i) {
                error = std::max(error, std::fabs(got[static_cast<size_t>(i)] - want[static_cast<size_t>(i)]));
                most = std::max(most, std::fabs(want[static_cast<size_t>(i)]));
            }
        worst = std::max(worst, most > 0 ? error / most : error);
        start += count;
    }
    return worst;
}

TEST(Backward, IsWithinRoundingOfTheGradients) {
    for (const Problem& problem : telling_problems())
        for (const Distribution values : {CaseKind::uniform, CaseKind::normal}) {
            const std::vector<float> in = values_of(problem, values);
            EXPECT_LT(largest_error(problem, computed(problem, in), exact_gradients(problem, in)), 2e-6)
                << sizes_of(problem).second << " " << spelling_of(values);
        }
}

// The sum of O * dO, in double precision.
Exact value_of(const Problem& problem, const std::vector<Exact>& in) {
    std::vector<Exact> unused(static_cast<size_t>(problem.batches) * problem.batch_output_floats());
    Exact sum = 0;
    const int64_t d = problem.dim;
    for_each_head(problem, in, unused, [&](const HeadOf<Exact>& head, int64_t, int64_t) {
        for (int64_t i = 0; i < problem.queries; ++i) {
            const std::vector<Exact> p = exact_row(problem, head, i);
            for (size_t j = 0; j < p.size(); ++j)
                sum += p[j] * exact_dot(head.dout + i * d, head.v + static_cast<int64_t>(j) * d, d);
        }
    });
    return sum;
}

// Q, K and V precede dO, in the order of dQ, dK and dV.
TEST(Backward, IsTheSlopeOfForward) {
    for (const Mask mask : kEveryMask) {
        const Problem problem = backward_of({1, 2, 1, 7, 5, 3}, mask);
        const std::vector<float> in = values_of(problem);
        const std::vector<float> got = computed(problem, in);
        for (size_t i = 0; i < got.size(); ++i) {
            constexpr Exact kStep = 1e-5;
            std::vector<Exact> moved(in.begin(), in.end());
            moved[i] += kStep;
            const Exact above = value_of(problem, moved);
            moved[i] -= 2 * kStep;
            EXPECT_NEAR(got[i], (above - value_of(problem, moved)) / (2 * kStep), 2e-5) << i;
        }
    }
}

// ---- The order of every sum

float chained(const float* a, const float* b, int64_t d) {
    float sum = 0;
    for (int64_t first = 0; first < d; first += 32) {
        float chain = 0;
        for (int64_t t = first; t < std::min(first + 32, d); ++t) chain = std::fmaf(a[t], b[t], chain);
        sum += chain;
    }
    return sum;
}

struct Factors {
    float a;
    float b;
};

// Adds rows 0 to count - 1; term(row) gives the factors of a product.
template <class Term>
float in_order(int64_t count, bool descending, Term term) {
    const auto segment_sum = [&](int64_t first) {
        float chain = 0;
        for (int64_t row = first; row < std::min(first + 64, count); ++row) {
            const Factors factors = term(row);
            chain = std::fmaf(factors.a, factors.b, chain);
        }
        return chain;
    };
    const auto place = [&](int64_t number, int64_t of) { return descending ? of - 1 - number : number; };
    const int64_t groups = (count + 1023) / 1024;
    float total = 0;
    for (int64_t g = 0; g < groups; ++g) {
        const int64_t first = 1024 * place(g, groups);
        const int64_t segments = (std::min<int64_t>(1024, count - first) + 63) / 64;
        float group = 0;
        for (int64_t s = 0; s < segments; ++s) group += segment_sum(first + 64 * place(s, segments));
        total += group;
    }
    return total;
}

// Computes one number after another, each with everything it needs; pairs that a row does not see count as zeros.
std::vector<float> one_by_one(const Problem& problem, const std::vector<float>& in) {
    const int64_t d = problem.dim;
    const int64_t n = problem.keys;
    const Scale scale = scale_for(d);
    const auto g = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
    std::vector<float> out(static_cast<size_t>(problem.batches) * problem.batch_output_floats());
    for_each_head(problem, in, out, [&](const HeadOf<float>& head, int64_t, int64_t h) {
        const bool is_last = (h + 1) % (problem.heads / problem.kv_heads) == 0; // of the heads that share keys
        std::vector<float> o(static_cast<size_t>(problem.queries * d));
        std::vector<RowStatistics> rows(static_cast<size_t>(problem.queries));
        const UnitOperands forward{problem.queries, n,           d, {head.q, head.k, head.v}, {o.data()},
                                   problem.mask,    rows.data(), 1};
        kF32.find(kForward)->reference(forward);
        std::vector<float> p(static_cast<size_t>(problem.queries * n));
        std::vector<float> ds(p);
        for (int64_t i = 0; i < problem.queries; ++i) {
            const auto& [M, origin, l] = rows[static_cast<size_t>(i)];
            const float D = chained(head.dout + i * d, o.data() + i * d, d);
            for (int64_t j = 0; j < forward.visible(i); ++j) {
                const float score =
                    larger(chained(head.q + i * d, head.k + j * d, d) - origin, (M + kDeepest) * scale.inv_c);
                const auto at = static_cast<size_t>(i * n + j);
                p[at] = exp2_scaled(score, scale.c, kRoundToInt - M) * (1.0f / l);
                const float above_mean = chained(head.dout + i * d, head.v + j * d, d) - D;
                ds[at] = p[at] * above_mean;
            }
        }
        for (int64_t x = 0; x < d; ++x) {
            const auto over_keys = [&](int64_t i) {
                return in_order(n, true, [&](int64_t j) {
                    return Factors{ds[static_cast<size_t>(i * n + j)], head.k[j * d + x]};
                });
            };
            const auto over_queries = [&](const std::vector<float>& pairs, const float* factors, int64_t j) {
                return in_order(problem.queries, false, [&](int64_t i) {
                    return Factors{pairs[static_cast<size_t>(i * n + j)], factors[i * d + x]};
                });
            };
            for (int64_t i = 0; i < problem.queries; ++i) head.dq[i * d + x] = std::fmaf(over_keys(i), g, 0.0f);
            for (int64_t j = 0; j < n; ++j) {
                float& dk = head.dk[j * d + x];
                float& dv = head.dv[j * d + x];
                dk += over_queries(ds, head.q, j);
                dv += over_queries(p, head.dout, j);
                if (is_last) dk = std::fmaf(dk, g, 0.0f);
            }
        }
    });
    return out;
}

void expect_one_by_one(const Problem& problem, const Distribution& values) {
    const std::vector<float> in = values_of(problem, values);
    EXPECT_TRUE(same_bytes(one_by_one(problem, in), computed(problem, in)))
        << sizes_of(problem).second << " " << spelling_of(values);
}

TEST(Backward, AddsEverythingInTheOrderOfTheContract) {
    for (const Problem& problem : telling_problems())
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::gtiny, CaseKind::gzero})
            expect_one_by_one(problem, kind);
}

TEST(Backward, MeasuresWeightsAgainstForwardsLastReference) {
    for (const Distribution& values :
         {Distribution(CaseKind::stray), Distribution(CaseKind::stray, 1e6), Distribution(CaseKind::huge),
          Distribution(CaseKind::spread), Distribution(CaseKind::threshold), Distribution(CaseKind::low)})
        for (const Mask mask : kEveryMask) expect_one_by_one(backward_of({2, 1, 1, 150, 150, 8}, mask), values);
}

TEST(Backward, KnowsTheReferenceFromARowsStatistics) {
    const Scale scale = scale_for(64);
    for (const float score : {0.0f, 10.0f, -300.0f, 900.0f, 1e8f, -1e8f}) {
        const Reference known = reference_at(score, scale);
        const Reference again = reference_of({known.M, known.origin, 1}, scale);
        EXPECT_EQ(std::tie(again.M, again.origin, again.bias, again.floor, again.raise_above),
                  std::tie(known.M, known.origin, known.bias, known.floor, known.raise_above))
            << score;
    }
}

} // namespace
} // namespace hw4
