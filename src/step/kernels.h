// What a vector unit computes of a training step: the tile of a product and rows of the other operations
// (vector_unit.h). Each unit has a file of its own, since it is compiled with flags of its own.
#pragma once

#include <cstdint>

#include "src/step/arithmetic.h"

namespace hw4::step {

constexpr int64_t kGainColumns = 64;

struct Kernels {
    const char* name;
    bool (*supported)();

    int64_t tile_rows;
    int64_t tile_columns;
    // totals[tile_rows][tile_columns] += each chain of a[terms][tile_rows] by b[terms][tile_columns].
    void (*tile)(const float* a, const float* b, int64_t terms, float* totals);

    void (*norm)(const float* x, const float* gain, float* y, float* factor, int64_t width);
    void (*norm_back)(const float* x, const float* gain, float factor, const float* dy, float* dx, int64_t width);
    // The leaf of one sequence, of up to kGainColumns columns of rows that are `width` wide.
    void (*norm_gain)(const float* x, const float* factors, const float* dy, float* leaf, int64_t context,
                      int64_t width, int64_t columns);
    void (*rotate)(float* row, const float* table, int64_t pairs, bool back);
    void (*swiglu)(const float* u, const float* v, float* h, int64_t hidden);
    void (*swiglu_back)(const float* u, const float* v, const float* dh, float* du, float* dv, int64_t hidden);
    // Returns the loss; the gradient takes the place of the logits.
    double (*cross_entropy)(float* logits, int32_t target, int64_t vocabulary, float share);
    float (*squares)(const float* segment);
    void (*adamw)(float* p, const float* g, float* m, float* v, int64_t count, const Adam& step);
};

extern const Kernels kGenericKernels, kAvx2Kernels, kAvx512Kernels;

} // namespace hw4::step
