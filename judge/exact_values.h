// What attention and its gradients are in float64, from a case's numbers rounded to a type: what outputs are compared
// with under contracts that have a bound instead of bytes.
#pragma once

#include <string>
#include <vector>

#include "src/io/case_file.h"
#include "src/problem/element.h"

namespace hw4 {

// O of one batch, or dQ, dK and dV, its operands one after the other. Rounded to float32 only at the end: thousands of
// times finer than what it is compared with. On all processors.
// `keys`: how many of the batch's rows of K and V it attends to.
std::vector<float> exact_output(const Problem& problem, const std::vector<float>& batch, int64_t keys);

// Those of all batches in their order, each computed when its values are asked for.
class ExactValues {
public:
    ExactValues(CaseReader& input, Element element) : input_(input), element_(element) {}

    void read(float* to, size_t count);

private:
    void compute_next();

    CaseReader& input_;
    Element element_;
    int64_t batch_ = 0; // the next
    std::vector<float> computed_;
    size_t taken_ = 0; // of those, which are as in a file
};

} // namespace hw4
