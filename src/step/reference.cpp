#include "src/contracts/contract.h"
#include "src/contracts/fma_clones.h"
#include "src/step/host_machine.h"
#include "src/step/orders.h"
#include "src/step/rounded_operands.h"

namespace hw4::step {
namespace {

// A vector with `step` floats between its elements.
struct Strided {
    const float* at;
    int64_t step;

    HW4_INLINE float operator[](int64_t i) const { return at[i * step]; }
};

HW4_FMA_CLONES float product(Strided a, Strided b, int64_t terms) {
    return k_sum(terms, [&](int64_t k, float chain) { return fused(a[k], b[k], chain); });
}

// The leaf of TOKEN-SUM for one sequence.
HW4_FMA_CLONES float product_of_tokens(Strided a, Strided b, int64_t first, int64_t end) {
    return chains_sum(first, end, [&](int64_t t, float chain) { return fused(a[t], b[t], chain); });
}

HW4_FMA_CLONES float gain_of_tokens(Strided x, const float* factors, Strided dy, int64_t first, int64_t end) {
    return chains_sum(first, end, [&](int64_t t, float chain) { return fused(dy[t], x[t] * factors[t], chain); });
}

class Reference : public HostMachine {
public:
    Reference() : HostMachine(kGenericKernels, 1) {}

    void embed_back(const Tokens& tokens, const float* dx, float* d_table, int64_t vocabulary, int64_t width) override {
        for (int64_t id = 0; id < vocabulary; ++id)
            for (int64_t e = 0; e < width; ++e)
                d_table[id * width + e] = token_sum(tokens.sequences, tokens.context, [&](int64_t t, float chain) {
                    return tokens.inputs[static_cast<size_t>(t)] == id ? chain + dx[t * width + e] : chain;
                });
    }

    void multiply(const LinearProduct& of) override {
        for (int64_t row = 0; row < of.rows(); ++row)
            for (int64_t column = 0; column < of.columns(); ++column) {
                const Strided a = of.a_along() ? Strided{of.a + row * of.terms(), 1} : Strided{of.a + row, of.rows()};
                const Strided b =
                    of.b_along() ? Strided{of.b + column * of.terms(), 1} : Strided{of.b + column, of.columns()};
                const auto of_sequence = [&](int64_t s) {
                    return product_of_tokens(a, b, s * of.context, (s + 1) * of.context);
                };
                const float sum = of.kind == ProductKind::linear_weights ? tree_sum(of.tokens / of.context, of_sequence)
                                                                         : product(a, b, of.terms());
                const int64_t at = row * of.columns() + column;
                of.out[at] = of.residual == nullptr ? sum : of.residual[at] + sum;
            }
    }

    void norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                   int64_t context, int64_t width) override {
        for (int64_t e = 0; e < width; ++e)
            d_gain[e] = tree_sum(sequences, [&](int64_t s) {
                return gain_of_tokens({x + e, width}, factors, {dy + e, width}, s * context, (s + 1) * context);
            });
    }

protected:
    void compute(const Problem& problem, float* in, const float* forward_out, RowStatistics* statistics,
                 float* out) override {
        compute_by_reference(kF32, problem, in, out, forward_out == nullptr ? statistics : nullptr);
    }
};

} // namespace

std::unique_ptr<Machine> make_reference(const Contract& contract) {
    if (&contract == &kBf16) return std::make_unique<RoundedOperands<Reference>>();
    return std::make_unique<Reference>();
}

} // namespace hw4::step
