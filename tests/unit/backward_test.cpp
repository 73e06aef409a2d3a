// The backward reference of f32: its numbers beside gradients in double and differences of forward, its bytes
// beside sums that are formed one by one in the order of the contract, and what must hold exactly.
#include <gtest/gtest.h>

#include <cmath>

#include "src/contracts/f32/backward.h"
#include "src/problem/matrix.h"
#include "tests/support/attention_case.h"

namespace hw4 {
namespace {

using Exact = double;

Problem backward_of(Problem problem, Mask mask = Mask::none) {
    problem.operation = &kBackward;
    problem.mask = mask;
    return problem;
}

Problem with_heads(Problem problem, int64_t heads, int64_t kv_heads, int64_t keys) {
    problem.heads = heads;
    problem.kv_heads = kv_heads;
    problem.keys = keys;
    return problem;
}

// One, whole and broken segments and groups, odd d; heads that share keys, more keys and fewer than queries.
std::vector<Problem> telling_problems() {
    std::vector<Problem> list;
    for (const Mask mask : kEveryMask)
        for (const Problem& plain :
             {Problem{1, 1, 1}, Problem{2, 3, 2}, Problem{1, 64, 33}, Problem{1, 130, 64}, Problem{1, 1090, 3},
              with_heads({2, 65, 5}, 4, 2, 70), with_heads({1, 80, 8}, 3, 1, 66), with_heads({1, 3, 4}, 2, 2, 200)})
            list.push_back(backward_of(plain, mask));
    return list;
}

std::vector<float> values_of(const Problem& problem, const Distribution& values = CaseKind::uniform,
                             uint64_t seed = 7) {
    std::vector<float> in(static_cast<size_t>(problem.batches) * problem.batch_input_floats());
    fill_case_values({problem, values, seed}, 0, in.size(), in.data());
    return in;
}

std::vector<float> computed(const Problem& problem, const std::vector<float>& in) {
    std::vector<float> out(static_cast<size_t>(problem.batches) * problem.batch_output_floats());
    compute_by_reference(kF32, problem, in.data(), out.data());
    return out;
}

// The operands of one head of queries, in any kind of number that was made from the floats.
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

// What of() is for all seven: act(head, batch, head of queries).
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

// Text-book formulas, no care for order.
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

// The largest error of each of dQ, dK, dV beside its own largest magnitude.
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
        for (const Distribution& values : {Distribution(CaseKind::uniform), Distribution(CaseKind::normal, 2)}) {
            const std::vector<float> in = values_of(problem, values);
            EXPECT_LT(largest_error(problem, computed(problem, in), exact_gradients(problem, in)), 2e-6)
                << sizes_of(problem).second << " " << spelling_of(values);
        }
}

} // namespace
} // namespace hw4
