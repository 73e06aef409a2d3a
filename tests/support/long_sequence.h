// One batch of 262144 tokens, of which only some rows are computed: all of them would take a CPU minutes.
#pragma once

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "src/cpu/kernel.h"
#include "src/io/case_values.h"

namespace hw4 {

struct LongSequence {
    const Shape shape;
    std::vector<float> qkv;

    explicit LongSequence(int64_t dim) : shape{1, 1 << 18, dim}, qkv(shape.batch_input_floats()) {
        fill_case_values({shape, CaseKind::uniform, 3}, 0, qkv.size(), qkv.data());
    }

    // Output rows from `first` on, so many as one block of the kernel's may have.
    std::vector<float> rows_by(const cpu::Kernel& kernel, int64_t first, int64_t rows) const {
        std::vector<float> out(static_cast<size_t>(rows * shape.dim), NAN);
        const Memory workspace = allocate(kernel.workspace_floats(rows, shape.dim) * sizeof(float));
        const Memory prepared = prepared_by(kernel);
        kernel.attend({q() + first * shape.dim, k(), v(), out.data(), rows, shape.tokens, shape.dim,
                       scale_for(shape.dim), prepared.get()},
                      static_cast<float*>(workspace.get()));
        return out;
    }

    // One row by the definition, in double.
    std::vector<double> row_by_definition(int64_t row) const {
        std::vector<double> out(static_cast<size_t>(shape.dim));
        double total = 0;
        for (int64_t key = 0; key < shape.tokens; ++key) {
            double score = 0;
            for (int64_t t = 0; t < shape.dim; ++t)
                score += double{q()[row * shape.dim + t]} * double{k()[key * shape.dim + t]};
            const double weight = std::exp(score / std::sqrt(static_cast<double>(shape.dim)));
            total += weight;
            for (size_t t = 0; t < out.size(); ++t)
                out[t] += weight * double{v()[static_cast<size_t>(key * shape.dim) + t]};
        }
        for (double& x : out) x /= total;
        return out;
    }

private:
    using Memory = std::unique_ptr<void, void (*)(void*)>;

    static Memory allocate(size_t bytes) { return {std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free}; }

    // K and V as the kernel wants them; nothing where it takes them as they are.
    Memory prepared_by(const cpu::Kernel& kernel) const {
        if (kernel.prepare == nullptr) return {nullptr, std::free};
        Memory prepared = allocate(kernel.prepared_bytes(shape.tokens, shape.dim));
        kernel.prepare({k(), v(), shape.tokens, shape.dim, 0, shape.tokens / cpu::kPreparedKeys}, prepared.get());
        return prepared;
    }

    const float* q() const { return qkv.data(); }
    const float* k() const { return q() + shape.matrix_floats(); }
    const float* v() const { return k() + shape.matrix_floats(); }
};

} // namespace hw4
