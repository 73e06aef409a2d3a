// The initial weights. A gain is 1. A matrix is drawn from the normal distribution, cut at 3 standard deviations: a
// number beyond is drawn again. The standard deviation is 1 for the embedding, sqrt(2 / (inputs +
// outputs)) for all other matrices; q, k, v and gate, up are matrices of their own.
//
// Elements 2i and 2i + 1 of a tensor come from block i of the counter generator (philox.h) by Box and Muller:
// sqrt(-2 ln u) * cos and sin of 2 pi w, where u and w have 52 and 53 bits. In doubles by + - * /, sqrt, log2_of() and
// sine_cosine(), which every machine rounds alike; the weight is rounded once to float.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/step/machine.h"
#include "src/step/model.h"

namespace hw4::step {

// Elements `first` to `first + count - 1` of the tensor at `place` of the list; `first` is even.
void draw_weights(const Parameter& parameter, size_t place, uint64_t seed, size_t first, size_t count, float* to);

// Draws all weights with `threads` threads, into the machine's memory.
void draw_all_weights(Machine& machine, const Parameters& parameters, uint64_t seed, int threads, float* to);

} // namespace hw4::step
