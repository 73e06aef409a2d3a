// A case that is determined by a seed: a problem, mostly small and often at a limit, and values of many kinds, always
// within the contract's domain. Every machine draws the same case.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/problem/problem.h"

namespace hw4::fuzz {

class Random;

struct DrawnCase {
    explicit DrawnCase(uint64_t seed);

    std::string name() const; // describes the problem
    size_t output_floats() const { return static_cast<size_t>(problem.batches) * problem.batch_output_floats(); }
    float* batch(int64_t index) { return qkv.data() + static_cast<size_t>(index) * problem.batch_input_floats(); }
    const float* batch(int64_t index) const {
        return qkv.data() + static_cast<size_t>(index) * problem.batch_input_floats();
    }

    uint64_t seed;
    Problem problem;
    std::vector<float> qkv; // all inputs

private:
    void draw_batches(Random& random);
    void regroup(const Problem& regrouped);
    void add_gradients();
};

} // namespace hw4::fuzz
