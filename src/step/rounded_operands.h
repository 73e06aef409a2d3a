// The contract bf16 of a training step on a CPU: a machine of f32 whose products and attention get rounded copies of
// their operands (arithmetic.h).
#pragma once

#include "src/step/host_machine.h"

namespace hw4::step {

template <class Base>
class RoundedOperands : public Base {
public:
    using Base::Base;

    size_t scratch_bytes() const override { return Base::scratch_bytes() + first_.bytes() + second_.bytes(); }

    void multiply(const LinearProduct& of) override {
        LinearProduct rounded = of;
        rounded.a = copy(first_, of.a, of.rows() * of.terms());
        rounded.b = copy(second_, of.b, of.columns() * of.terms());
        Base::multiply(rounded);
    }

protected:
    // Backward computes O again, since forward's was rounded: the bytes equal the contract's reference.
    void compute(const Problem& problem, float* in, const float* forward_out, RowStatistics* statistics,
                 float* out) override {
        round(in, in, problem.input_rows() * problem.dim);
        Base::compute(problem, in, nullptr, forward_out == nullptr ? statistics : nullptr, out);
        round(out, out, problem.output_rows() * problem.dim);
    }

private:
    void round(const float* from, float* to, int64_t count) {
        this->numbers(static_cast<size_t>(count), [&](int64_t first, int64_t some, int) {
            round_all(Element::bf16, from + first, static_cast<size_t>(some), to + first);
        });
    }
    const float* copy(Buffer& buffer, const float* from, int64_t count) {
        float* const to = buffer.of(count);
        round(from, to, count);
        return to;
    }

    Buffer first_, second_;
};

} // namespace hw4::step
