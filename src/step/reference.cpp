#include "src/step/reference.h"

#include <vector>

#include "src/contracts/contract.h"
#include "src/contracts/fma_clones.h"
#include "src/step/host_machine.h"
#include "src/step/kernels.h"
#include "src/step/orders.h"

namespace hw4::step {
namespace {

// A vector whose elements are so far apart.
struct Strided {
    const float* at;
    int64_t step;

    HW4_INLINE float operator[](int64_t i) const { return at[i * step]; }
};

HW4_FMA_CLONES float product(Strided a, Strided b, int64_t terms) {
    return k_sum(terms, [&](int64_t k, float chain) { return fused(a[k], b[k], chain); });
}

// The leaf of TOKEN-SUM that is one sequence.
HW4_FMA_CLONES float product_of_tokens(Strided a, Strided b, int64_t first, int64_t end) {
    return chains_sum(first, end, [&](int64_t t, float chain) { return fused(a[t], b[t], chain); });
}

class Reference : public HostMachine {
public:
    void embed(const Tokens& tokens, const float* table, float* x, int64_t width) override {
        for (int64_t t = 0; t < tokens.rows(); ++t)
            std::copy_n(table + tokens.inputs[static_cast<size_t>(t)] * width, width, x + t * width);
    }

    void embed_back(const Tokens& tokens, const float* dx, float* d_table, int64_t vocabulary, int64_t width) override {
        for (int64_t id = 0; id < vocabulary; ++id)
            for (int64_t e = 0; e < width; ++e)
                d_table[id * width + e] = token_sum(tokens.sequences, tokens.context, [&](int64_t t, float chain) {
                    return tokens.inputs[static_cast<size_t>(t)] == id ? chain + dx[t * width + e] : chain;
                });
    }

    void linear(const float* x, const float* w, const float* residual, float* y, int64_t rows, int64_t inputs,
                int64_t outputs) override {
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t o = 0; o < outputs; ++o) {
                const float sum = product({x + row * inputs, 1}, {w + o * inputs, 1}, inputs);
                const int64_t at = row * outputs + o;
                y[at] = residual == nullptr ? sum : residual[at] + sum;
            }
    }

    void linear_back(const float* dy, const float* w, float* dx, int64_t rows, int64_t inputs,
                     int64_t outputs) override {
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t i = 0; i < inputs; ++i)
                dx[row * inputs + i] = product({dy + row * outputs, 1}, {w + i, inputs}, outputs);
    }

    void linear_weights(const float* dy, const float* x, float* dw, int64_t sequences, int64_t context, int64_t inputs,
                        int64_t outputs) override {
        for (int64_t o = 0; o < outputs; ++o)
            for (int64_t i = 0; i < inputs; ++i)
                dw[o * inputs + i] = tree_sum(sequences, [&](int64_t s) {
                    return product_of_tokens({dy + o, outputs}, {x + i, inputs}, s * context, (s + 1) * context);
                });
    }

    void norm(const float* x, const float* gain, float* y, float* factors, int64_t rows, int64_t width) override {
        for (int64_t row = 0; row < rows; ++row)
            rows_.norm(x + row * width, gain, y + row * width, factors + row, width);
    }

    void norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx, int64_t rows,
                   int64_t width) override {
        for (int64_t row = 0; row < rows; ++row)
            rows_.norm_back(x + row * width, gain, factors[row], dy + row * width, dx + row * width, width);
    }

    void norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                   int64_t context, int64_t width) override {
        for (int64_t e = 0; e < width; ++e)
            d_gain[e] = tree_sum(sequences, [&](int64_t s) {
                const int64_t first = s * context;
                float leaf = 0;
                rows_.norm_gain(x + first * width + e, factors + first, dy + first * width + e, &leaf, context, width,
                                1);
                return leaf;
            });
    }

    void rotate(float* qkv, const float* table, int64_t sequences, int64_t context, const Model& model,
                bool back) override {
        const int64_t dim = model.head_width();
        for (int64_t t = 0; t < sequences * context; ++t)
            for (int64_t head = 0; head < 2 * model.heads; ++head) // q's, then k's
                rows_.rotate(qkv + t * 3 * model.width + head * dim, table + t % context * dim, dim / 2, back);
    }

    void attend(const float* qkv, float* o, RowStatistics* statistics, int64_t sequences, int64_t context,
                const Model& model) override {
        for (int64_t s = 0; s < sequences; ++s)
            for (int64_t h = 0; h < model.heads; ++h) {
                HeadsOfUnit unit(qkv + s * context * 3 * model.width, h, context, model);
                unit.operands.statistics = statistics + (s * model.heads + h) * context;
                f32_forward(unit.operands);
                give_head(unit.out[0].data(), unit.place(0, 1), context, o + s * context * model.width);
            }
    }

    // Forward is done again, so its output and statistics are not needed.
    void attend_back(const float* qkv, const float*, const RowStatistics*, const float* d_o, float* d_qkv,
                     int64_t sequences, int64_t context, const Model& model) override {
        for (int64_t s = 0; s < sequences; ++s)
            for (int64_t h = 0; h < model.heads; ++h) {
                HeadsOfUnit unit(qkv + s * context * 3 * model.width, h, context, model);
                take_head(d_o + s * context * model.width, unit.place(0, 1), context, unit.in[3].data());
                f32_backward(unit.operands);
                for (int64_t i = 0; i < 3; ++i)
                    give_head(unit.out[static_cast<size_t>(i)].data(), unit.place(i, 3), context,
                              d_qkv + s * context * 3 * model.width);
            }
    }

    void swiglu(const float* gate_up, float* h, int64_t rows, int64_t hidden) override {
        for (int64_t row = 0; row < rows; ++row) {
            const float* const u = gate_up + row * 2 * hidden;
            rows_.swiglu(u, u + hidden, h + row * hidden, hidden);
        }
    }

    void swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows, int64_t hidden) override {
        for (int64_t row = 0; row < rows; ++row) {
            const float* const u = gate_up + row * 2 * hidden;
            float* const du = d_gate_up + row * 2 * hidden;
            rows_.swiglu_back(u, u + hidden, dh + row * hidden, du, du + hidden, hidden);
        }
    }

    std::vector<double> cross_entropy(float* logits, const Tokens& tokens, int64_t vocabulary, float share) override {
        std::vector<double> losses;
        for (int64_t s = 0; s < tokens.sequences; ++s) {
            double sum = 0;
            for (int64_t t = s * tokens.context; t < (s + 1) * tokens.context; ++t)
                sum = sum + rows_.cross_entropy(logits + t * vocabulary, tokens.targets[static_cast<size_t>(t)],
                                                vocabulary, share);
            losses.push_back(sum);
        }
        return losses;
    }

    void add(float* a, const float* b, size_t count) override {
        for (size_t i = 0; i < count; ++i) a[i] = a[i] + b[i];
    }
    void squares(const float* x, size_t count, float* sums) override {
        for (size_t i = 0; i < count; i += kSegment) *sums++ = rows_.squares(x + i);
    }
    void adamw(float* p, const float* g, float* m, float* v, size_t count, const Adam& step) override {
        rows_.adamw(p, g, m, v, static_cast<int64_t>(count), step);
    }

private:
    // A head of a sequence, with operands of its own.
    struct HeadsOfUnit {
        HeadsOfUnit(const float* qkv, int64_t head_index, int64_t context, const Model& of)
            : model(of), head(head_index) {
            for (int64_t i = 0; i < 4; ++i) {
                std::vector<float>& rows = in[static_cast<size_t>(i)];
                rows.resize(static_cast<size_t>(context * model.head_width()));
                if (i < 3) take_head(qkv, place(i, 3), context, rows.data());
                operands.in[i] = rows.data();
            }
            for (size_t i = 0; i < 3; ++i) {
                out[i].resize(in[i].size());
                operands.out[i] = out[i].data();
            }
            operands.queries = operands.keys = context;
            operands.dim = model.head_width();
            operands.mask = Mask::causal;
        }
        // In matrix `index` of so many side by side.
        HeadPlace place(int64_t index, int64_t matrices) const {
            return {index * model.width + head * model.head_width(), matrices * model.width, model.head_width()};
        }

        const Model& model;
        int64_t head;
        std::vector<float> in[4];
        std::vector<float> out[3];
        UnitOperands operands;
    };

    const Kernels& rows_ = generic_kernels();
};

} // namespace

std::unique_ptr<Machine> make_reference() { return std::make_unique<Reference>(); }

} // namespace hw4::step
