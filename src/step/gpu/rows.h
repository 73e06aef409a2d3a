// The operations of a step on the GPU, without matrix products and attention. All pointers are to device memory. Each
// function only puts kernels into the stream. Throws Error.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "src/step/arithmetic.h"

namespace hw4::step {

struct EmbeddingLeaves { // TokenLeaves
    const int32_t *places, *begins, *joins, *tokens;
    int64_t leaf_count, token_count;
};

class RowKernels {
public:
    explicit RowKernels(cudaStream_t stream) : stream_(stream) {}

    void add(float* a, const float* b, int64_t count) const;
    void adamw(float* p, const float* g, float* m, float* v, int64_t count, const Adam& step) const;
    void squares(const float* x, int64_t segments, float* sums) const;

    void embed(const int32_t* tokens, const float* table, float* x, int64_t rows, int64_t width) const;
    // `leaves` has leaf_count * width floats. Writes only the table's rows of these tokens.
    void embed_back(const EmbeddingLeaves& of, const float* dx, float* leaves, float* d_table, int64_t width) const;

    void norm(const float* x, const float* gain, float* y, float* factors, int64_t rows, int64_t width) const;
    void norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx, int64_t rows,
                   int64_t width) const;
    // `leaves`: memory for a row for each sequence, its width rounded up to a multiple of four.
    void norm_gain(const float* x, const float* factors, const float* dy, float4* leaves, float* d_gain,
                   int64_t sequences, int64_t context, int64_t width) const;

    void rotate(float* qkv, const float* table, int64_t rows, int64_t context, int64_t heads, int64_t head_width,
                bool back) const;
    void swiglu(const float* gate_up, float* h, int64_t rows, int64_t hidden) const;
    void swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows, int64_t hidden) const;
    void cross_entropy(float* logits, const int32_t* targets, double* losses, int64_t rows, int64_t vocabulary,
                       float share) const;

private:
    cudaStream_t stream_;
};

} // namespace hw4::step
