// Attention and its gradients in float64, from a case's numbers rounded to a type: the reference for contracts that
// have a bound instead of bytes.
#pragma once

#include <vector>

#include "src/io/case_file.h"
#include "src/problem/element.h"

namespace hw4 {

// O of one batch, or dQ, dK and dV; its operands follow each other. Rounded to float32 only at the end, which is
// thousands of times finer than the compared outputs. Uses all processors. `keys`: how many of the batch's rows of K
// and V it attends to.
std::vector<float> exact_output(const Problem& problem, const std::vector<float>& batch, int64_t keys);

// The outputs of all batches in order; each is computed when its values are read.
class ExactValues {
public:
    ExactValues(CaseReader& input, Element element) : input_(input), element_(element) {}

    void read(float* to, size_t count);

private:
    void compute_next();

    CaseReader& input_;
    Element element_;
    int64_t batch_ = 0; // the next batch
    std::vector<float> computed_;
    size_t taken_ = 0; // values read from it, in the file's order
};

} // namespace hw4
