// Attention and its gradients in float64, from a case's numbers rounded to a type: the reference for contracts that
// have a bound instead of bytes.
#pragma once

#include <algorithm>
#include <vector>

#include "src/base/parallel.h"
#include "src/io/case_file.h"
#include "src/io/file_rows.h"
#include "src/problem/exact_attention.h"

namespace hw4 {

// Runs the work for each index, on all processors.
template <class Work>
void each(int64_t count, const Work& work) {
    in_pieces(static_cast<size_t>(count), 1, [&](size_t i, size_t) { work(static_cast<int64_t>(i)); });
}

inline void store(const Doubles& row, float* to) {
    for (const double number : row) *to++ = static_cast<float>(number);
}

// O of one batch, or dQ, dK and dV; its operands follow each other. Rounded to float32 only at the end, which is
// thousands of times finer than the compared outputs. Uses all processors. `keys`: how many of the batch's rows of K
// and V it attends to.
inline std::vector<float> exact_output(const Problem& problem, const std::vector<float>& batch, int64_t keys) {
    const ExactAttention exact(problem, batch.data(), keys);
    std::vector<float> out(problem.batch_output_floats());
    const auto row_of = [&](size_t operand, int64_t row) { return exact.output_row(out.data(), operand, row); };
    if (problem.operation == &kForward) {
        each(exact.query_rows(), [&](int64_t row) { store(exact.output(row), row_of(0, row)); });
        return out;
    }
    std::vector<ExactAttention::RowFacts> facts(static_cast<size_t>(exact.query_rows()));
    each(exact.query_rows(),
         [&](int64_t row) { store(exact.query_gradient(row, facts[static_cast<size_t>(row)]), row_of(0, row)); });
    each(exact.key_rows(), [&](int64_t row) {
        const auto [dK, dV] = exact.key_gradients(row, facts.data() + row / problem.keys * exact.rows_of_group());
        store(dK, row_of(1, row));
        store(dV, row_of(2, row));
    });
    return out;
}

// The outputs of all batches in order; each is computed when its values are read.
class ExactValues {
public:
    ExactValues(CaseReader& input, Element element) : input_(input), element_(element) {}

    void read(float* to, size_t count) {
        while (count > 0) {
            if (taken_ == computed_.size()) compute_next();
            const size_t step = std::min(count, computed_.size() - taken_);
            to = std::copy_n(computed_.data() + taken_, step, to);
            taken_ += step;
            count -= step;
        }
    }

private:
    void compute_next() {
        const Problem& problem = input_.problem();
        std::vector<float> batch(problem.batch_input_floats());
        const int64_t keys = input_.lengths() == nullptr ? problem.keys : input_.lengths()[batch_];
        input_.read_rows(batch_++ * problem.batch_input_rows(), problem.batch_input_rows(), batch.data());
        round_all(element_, batch.data(), batch.size(), batch.data());
        Problem one = problem.of_batches(1);
        one.element = Element::float32;
        const std::vector<float> rows = exact_output(one, batch, keys);
        computed_.clear();
        each_in_file(one, one.operation->outputs, 0, one.output_rows(), rows.data(),
                     [&](uint64_t, const void* numbers, size_t bytes) {
                         const auto* const values = static_cast<const float*>(numbers);
                         computed_.insert(computed_.end(), values, values + bytes / sizeof(float));
                     });
        taken_ = 0;
    }

    CaseReader& input_;
    Element element_;
    int64_t batch_ = 0; // the next batch
    std::vector<float> computed_;
    size_t taken_ = 0; // values read from it, in the file's order
};

} // namespace hw4
