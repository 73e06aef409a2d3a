// The reference of a training step against float64: values, and gradients against differences of float64 values.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "src/contracts/rope.h"
#include "src/step/machine.h"
#include "src/step/orders.h"
#include "tests/support/step_bench.h"

namespace hw4::step {
namespace {

using Doubles = std::vector<double>;
using Values = std::function<Doubles(const Doubles&)>;

Doubles wide(const Floats& x) { return {x.begin(), x.end()}; }

// The largest difference, relative to the largest number.
double error(const Doubles& exact, const Floats& got) {
    EXPECT_EQ(exact.size(), got.size());
    double most = 0;
    double worst = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
        most = std::max(most, std::fabs(exact[i]));
        worst = std::max(worst, std::fabs(exact[i] - got[i]));
        EXPECT_FALSE(std::isnan(got[i]));
    }
    return worst / most;
}

// The gradient of sum(weights * values(x)), by central differences.
Doubles gradient(const Values& values, Doubles x, const Floats& weights) {
    const auto sum = [&] {
        const Doubles y = values(x);
        double all = 0;
        for (size_t i = 0; i < y.size(); ++i) all += y[i] * weights[i];
        return all;
    };
    Doubles slopes;
    for (double& one : x) {
        const double at = one;
        const double step = 1e-5;
        one = at + step;
        const double above = sum();
        one = at - step;
        slopes.push_back((above - sum()) / (2 * step));
        one = at;
    }
    return slopes;
}

class StepAccuracy : public testing::Test {
protected:
    const std::unique_ptr<Machine> machine = make_reference();
    Draw draw{Numbers::ordinary};
    Floats drawn(size_t count) { return draw.numbers(count); }
};

// Addresses element (index, term) of a factor.
struct Strides {
    const Floats& at;
    size_t index, term;

    double of(size_t i, size_t k) const { return at[i * index + k * term]; }
};

Doubles dots(Strides a, size_t rows, Strides b, size_t columns, size_t terms) {
    Doubles all(rows * columns);
    for (size_t i = 0; i < all.size(); ++i)
        for (size_t k = 0; k < terms; ++k) all[i] += a.of(i / columns, k) * b.of(i % columns, k);
    return all;
}

TEST_F(StepAccuracy, Linear) {
    const size_t rows = 6, inputs = 1100, outputs = 5;
    const Floats x = drawn(rows * inputs), w = drawn(outputs * inputs), dy = drawn(rows * outputs);
    Floats y(rows * outputs), dx(rows * inputs), dw(outputs * inputs);
    machine->linear(x.data(), w.data(), nullptr, y.data(), rows, inputs, outputs);
    machine->linear_back(dy.data(), w.data(), dx.data(), rows, inputs, outputs);
    machine->linear_weights(dy.data(), x.data(), dw.data(), 3, 2, inputs, outputs);
    EXPECT_LT(error(dots({x, inputs, 1}, rows, {w, inputs, 1}, outputs, inputs), y), 5e-7);
    EXPECT_LT(error(dots({dy, outputs, 1}, rows, {w, 1, inputs}, inputs, outputs), dx), 2e-7);
    EXPECT_LT(error(dots({dy, 1, outputs}, outputs, {x, 1, inputs}, inputs, rows), dw), 2e-7);
}

TEST_F(StepAccuracy, Embedding) {
    const size_t width = 7;
    const Tokens tokens{2, 3, {4, 0, 4, 1, 4, 4}, {}};
    const Floats table = drawn(5 * width), dx = drawn(6 * width);
    Floats x(6 * width), d_table(5 * width);
    machine->embed(tokens, table.data(), x.data(), width);
    machine->embed_back(tokens, dx.data(), d_table.data(), 5, width);
    Doubles exact(5 * width);
    for (size_t t = 0; t < 6; ++t)
        for (size_t e = 0; e < width; ++e) {
            const size_t at = static_cast<size_t>(tokens.inputs[t]) * width + e;
            EXPECT_EQ(x[t * width + e], table[at]);
            exact[at] += dx[t * width + e];
        }
    EXPECT_LT(error(exact, d_table), 1.5e-7);
}

TEST_F(StepAccuracy, Norm) {
    const size_t rows = 4, width = 33;
    const Floats x = drawn(rows * width), gain = drawn(width), dy = drawn(rows * width);
    const auto exact = [&](const Doubles& of, const Doubles& gains) {
        Doubles all;
        for (size_t r = 0; r < rows; ++r) {
            double squares = 0;
            for (size_t e = 0; e < width; ++e) squares += of[r * width + e] * of[r * width + e];
            for (size_t e = 0; e < width; ++e)
                all.push_back(of[r * width + e] / std::sqrt(squares / width + 1e-5) * gains[e]);
        }
        return all;
    };
    Floats y(x.size()), factors(rows), dx(x.size(), 0.0f), d_gain(width);
    machine->norm(x.data(), gain.data(), y.data(), factors.data(), rows, width);
    machine->norm_back(x.data(), gain.data(), factors.data(), dy.data(), dx.data(), rows, width);
    machine->norm_gain(x.data(), factors.data(), dy.data(), d_gain.data(), 2, 2, width);
    EXPECT_LT(error(exact(wide(x), wide(gain)), y), 4e-7);
    EXPECT_LT(error(gradient([&](const Doubles& of) { return exact(of, wide(gain)); }, wide(x), dy), dx), 4e-7);
    EXPECT_LT(error(gradient([&](const Doubles& of) { return exact(wide(x), of); }, wide(gain), dy), d_gain), 4e-7);
}

TEST_F(StepAccuracy, Swiglu) {
    const size_t rows = 3, hidden = 50;
    Floats gate_up = drawn(rows * 2 * hidden);
    for (size_t i = 0; i < gate_up.size(); i += 5) gate_up[i] *= 12; // up to 36, where a sigmoid is far below 1
    const Floats dh = drawn(rows * hidden);
    const Values exact = [&](const Doubles& of) {
        Doubles all;
        for (size_t i = 0; i < rows * hidden; ++i) {
            const double u = of[i / hidden * 2 * hidden + i % hidden];
            all.push_back(u / (1 + std::exp(-u)) * of[i / hidden * 2 * hidden + hidden + i % hidden]);
        }
        return all;
    };
    Floats h(dh.size()), d_gate_up(gate_up.size());
    machine->swiglu(gate_up.data(), h.data(), rows, hidden);
    machine->swiglu_back(gate_up.data(), dh.data(), d_gate_up.data(), rows, hidden);
    EXPECT_LT(error(exact(wide(gate_up)), h), 3e-7);
    EXPECT_LT(error(gradient(exact, wide(gate_up), dh), d_gate_up), 3e-7);
}

TEST_F(StepAccuracy, SiluIsRelativelyAccurate) {
    double worst = 0;
    for (float u = -30; u < 30; u += 0.0037f)
        worst = std::max(worst, std::fabs(swiglu(u, 1) / (double{u} / (1 + std::exp(-double{u}))) - 1));
    EXPECT_LT(worst, 3e-7);
    EXPECT_GT(sigmoid(-1000), 0);
    EXPECT_EQ(sigmoid(1000), 1);
}

TEST_F(StepAccuracy, CrossEntropy) {
    const size_t rows = 6, vocabulary = 150;
    const Tokens tokens{2, 3, {}, {0, 7, 149, 7, 3, 64}};
    Floats logits = drawn(rows * vocabulary);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = logits[i] * 4 + 300 * static_cast<float>(i / vocabulary);
    const Values exact = [&](const Doubles& of) {
        Doubles losses(2);
        for (size_t r = 0; r < rows; ++r) {
            const auto row = of.begin() + static_cast<ptrdiff_t>(r * vocabulary);
            const double most = *std::max_element(row, row + vocabulary);
            double l = 0;
            for (size_t e = 0; e < vocabulary; ++e) l += std::exp(row[static_cast<ptrdiff_t>(e)] - most);
            losses[r / 3] += most + std::log(l) - row[tokens.targets[r]];
        }
        return losses;
    };
    const Doubles want = exact(wide(logits)), slopes = gradient(exact, wide(logits), {0.25f, 0.25f});
    const Doubles got = machine->cross_entropy(logits.data(), tokens, vocabulary, 0.25f);
    for (size_t s = 0; s < 2; ++s) EXPECT_NEAR(got[s], want[s], 3e-7 * want[s]);
    EXPECT_LT(error(slopes, logits), 1e-6); // differences of losses near 1000
}

TEST_F(StepAccuracy, Attention) {
    const int64_t context = 5, sequences = 2;
    const Model model{6, 0, 0, 2, 0};
    const Floats qkv = drawn(10 * 18), d_o = drawn(10 * 6);
    const Values exact = [&](const Doubles& of) {
        const auto at = [&](size_t token, size_t matrix, size_t head, size_t e) {
            return of[token * 18 + matrix * 6 + head * 3 + e];
        };
        Doubles all(10 * 6);
        for (size_t t = 0; t < 10; ++t)
            for (size_t head = 0; head < 2; ++head) {
                double l = 0;
                for (size_t j = t / 5 * 5; j <= t; ++j) {
                    double score = 0;
                    for (size_t e = 0; e < 3; ++e) score += at(t, 0, head, e) * at(j, 1, head, e);
                    const double weight = std::exp(score / std::sqrt(3.0));
                    l += weight;
                    for (size_t e = 0; e < 3; ++e) all[t * 6 + head * 3 + e] += weight * at(j, 2, head, e);
                }
                for (size_t e = 0; e < 3; ++e) all[t * 6 + head * 3 + e] /= l;
            }
        return all;
    };
    Floats o(60), d_qkv(180);
    std::vector<RowStatistics> statistics(20);
    machine->attend(qkv.data(), o.data(), statistics.data(), sequences, context, model);
    machine->attend_back(qkv.data(), o.data(), statistics.data(), d_o.data(), d_qkv.data(), sequences, context, model);
    EXPECT_LT(error(exact(wide(qkv)), o), 5e-7);
    EXPECT_LT(error(gradient(exact, wide(qkv), d_o), d_qkv), 1e-6);
}

TEST_F(StepAccuracy, Rotate) {
    const Model model{8, 0, 0, 2, 0};
    const Floats before = drawn(6 * 24);
    Floats qkv = before, table(3 * 4);
    fill_rope_table(10000, 3, 4, table.data());
    machine->rotate(qkv.data(), table.data(), 2, 3, model, false);
    Doubles exact = wide(before);
    for (size_t i = 0; i < exact.size(); i += 2) {
        if (i % 24 >= 16) continue; // v is unchanged
        const double angle = static_cast<double>(i / 24 % 3) * (i % 4 == 0 ? 1 : 0.01);
        const double x = exact[i], y = exact[i + 1];
        exact[i] = x * std::cos(angle) - y * std::sin(angle);
        exact[i + 1] = x * std::sin(angle) + y * std::cos(angle);
    }
    EXPECT_LT(error(exact, qkv), 2e-7);
    machine->rotate(qkv.data(), table.data(), 2, 3, model, true);
    EXPECT_LT(error(wide(before), qkv), 4e-7);
}

TEST_F(StepAccuracy, AdamwAndClip) {
    Floats p = drawn(50), m(50), v(50);
    Doubles exact = wide(p), exact_m(50), exact_v(50);
    for (int t = 1; t <= 9; ++t) {
        const Floats g = drawn(50);
        machine->adamw(p.data(), g.data(), m.data(), v.data(), 50, adam_of({}, 1e-2, t, 0.5f));
        for (size_t i = 0; i < 50; ++i) {
            exact_m[i] = 0.9 * exact_m[i] + 0.1 * 0.5 * g[i];
            exact_v[i] = 0.95 * exact_v[i] + 0.05 * 0.25 * g[i] * g[i];
            const double change =
                exact_m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(exact_v[i] / (1 - std::pow(0.95, t))) + 1e-8);
            exact[i] = exact[i] * (1 - 1e-2 * 0.1) - 1e-2 * change;
        }
    }
    EXPECT_LT(error(exact, p), 3e-7);
    EXPECT_LT(error(exact_v, v), 1e-6);
    EXPECT_EQ(clip_factor(0.25, 1), 1);
    EXPECT_EQ(clip_factor(16, 1), static_cast<float>(1 / 4.000001));

    const Floats x = drawn(3 * kSegment);
    Floats sums(3);
    machine->squares(x.data(), x.size(), sums.data());
    double squares = 0;
    for (const float one : x) squares += double{one} * one;
    EXPECT_NEAR(squares_sum(sums.data(), 3), squares, 2e-7 * squares);
}

// ---- Orders of sums, shown by numbers: 2^24 + 1 is 2^24

float k_sum_of(const Floats& x) {
    return k_sum(static_cast<int64_t>(x.size()),
                 [&](int64_t k, float chain) { return fused(x[static_cast<size_t>(k)], 1, chain); });
}

TEST(StepOrders, ChainsAndLeavesOfKSum) {
    Floats x(2048);
    x[0] = 0x1p24f;
    std::fill(&x[1], &x[32], 1.0f); // lost one by one
    EXPECT_EQ(k_sum_of(x), 0x1p24f);
    std::fill(&x[32], &x[64], 1.0f); // the second chain
    EXPECT_EQ(k_sum_of(x), 0x1p24f + 32);
    for (size_t k = 64; k < 1024; k += 32) x[k] = 1; // lost chains
    EXPECT_EQ(k_sum_of(x), 0x1p24f + 32);
    for (size_t k = 1024; k < 2048; k += 32) x[k] = 1; // a leaf that is not lost
    EXPECT_EQ(k_sum_of(x), 0x1p24f + 64);
    EXPECT_EQ(bits_of(k_sum_of({-0.0f})), 0u);
}

TEST(StepOrders, TreeOfTokenSum) {
    const auto sum = [](const Floats& leaves) {
        return tree_sum(static_cast<int64_t>(leaves.size()), [&](int64_t s) { return leaves[static_cast<size_t>(s)]; });
    };
    EXPECT_EQ(sum({0x1p24f, 1, 1}), 0x1p24f);
    EXPECT_EQ(sum({0x1p24f, 1, 1, 1}), 0x1p24f + 2);
    EXPECT_EQ(sum({0x1p24f, 1, 1, 1, 1, 1}), 0x1p24f + 4);
}

TEST(StepOrders, RowSumIsAsStated) {
    const Floats x = Draw(Numbers::ordinary).numbers(2500);
    float expected = 0;
    for (size_t segment = 0; segment < x.size(); segment += 1024) {
        float chain[128] = {}, lane[32];
        for (size_t e = segment; e < std::min(segment + 1024, x.size()); ++e) chain[e % 128] += x[e];
        for (int l = 0; l < 32; ++l)
            lane[l] = (chain[4 * l] + chain[4 * l + 1]) + (chain[4 * l + 2] + chain[4 * l + 3]);
        for (const int half : {16, 8, 4, 2, 1})
            for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
        expected += lane[0];
    }
    const auto add = [&](int64_t e, float chain) { return chain + x[static_cast<size_t>(e)]; };
    EXPECT_EQ(row_sum<float>(2500, add), expected);
}

} // namespace
} // namespace hw4::step
