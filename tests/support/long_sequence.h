// One batch of 262144 tokens, of which tests compute only some rows: all rows would take a CPU minutes.
#pragma once

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "src/cpu/kernels.h"
#include "src/io/case_values.h"

namespace hw4 {

struct LongSequence {
    const Problem problem;
    std::vector<float> qkv;

    explicit LongSequence(int64_t dim) : problem{1, 1 << 18, dim}, qkv(problem.batch_input_floats()) {
        fill_case_values({problem, CaseKind::uniform, 3}, 0, qkv.size(), qkv.data());
    }

    // Output rows from `first` on, as many as one of the kernel's blocks may have.
    std::vector<float> rows_by(const cpu::Kernel& row, int64_t first, int64_t rows) const {
        const cpu::BlockKernel& kernel = *row.blocks;
        std::vector<float> out(static_cast<size_t>(rows * problem.dim), NAN);
        const Memory workspace = allocate(kernel.workspace_floats(rows, problem.dim) * sizeof(float));
        const Memory prepared = prepared_by(kernel);
        kernel.attend({q() + first * problem.dim, k(), v(), out.data(), rows, problem.queries, problem.dim,
                       scale_for(problem.dim), prepared.get()},
                      static_cast<float*>(workspace.get()));
        return out;
    }

    std::vector<double> row_by_definition(int64_t row) const {
        std::vector<double> out(static_cast<size_t>(problem.dim));
        double total = 0;
        for (int64_t key = 0; key < problem.queries; ++key) {
            double score = 0;
            for (int64_t t = 0; t < problem.dim; ++t)
                score += double{q()[row * problem.dim + t]} * double{k()[key * problem.dim + t]};
            const double weight = std::exp(score / std::sqrt(static_cast<double>(problem.dim)));
            total += weight;
            for (size_t t = 0; t < out.size(); ++t)
                out[t] += weight * double{v()[static_cast<size_t>(key * problem.dim) + t]};
        }
        for (double& x : out) x /= total;
        return out;
    }

private:
    using Memory = std::unique_ptr<void, void (*)(void*)>;

    static Memory allocate(size_t bytes) { return {std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free}; }

    // K and V in the kernel's prepared form; empty where it takes them as they are.
    Memory prepared_by(const cpu::BlockKernel& kernel) const {
        if (kernel.prepare == nullptr) return {nullptr, std::free};
        Memory prepared = allocate(kernel.prepared_bytes(problem.queries, problem.dim));
        kernel.prepare({k(), v(), problem.queries, problem.dim, 0, kernel.tiles_of(problem.queries)}, prepared.get());
        return prepared;
    }

    const float* q() const { return qkv.data(); }
    const float* k() const { return q() + problem.batch_output_floats(); }
    const float* v() const { return k() + problem.batch_output_floats(); }
};

} // namespace hw4
