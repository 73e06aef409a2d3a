// A case that follows from a seed: a shape, mostly small and often at an edge, and values of many kinds, always within
// the contract's domain. The same on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/problem/shape.h"

namespace hw4::fuzz {

class Random;

struct DrawnCase {
    explicit DrawnCase(uint64_t seed);

    std::string name() const; // shape and kinds of values
    float* batch(int64_t index) { return qkv.data() + static_cast<size_t>(index) * shape.batch_input_floats(); }
    const float* batch(int64_t index) const {
        return qkv.data() + static_cast<size_t>(index) * shape.batch_input_floats();
    }

    uint64_t seed;
    Shape shape;
    std::string values; // of what kind they are
    std::vector<float> qkv;

private:
    void draw_batches(Random& random);
};

} // namespace hw4::fuzz
