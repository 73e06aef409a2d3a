// cuBLAS, loaded when a naive cell asks for it: hw4 neither needs it nor links it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

#include "src/bench/cell.h"

namespace hw4::bench::gpu_side {

// C = factor * op(A) op(B) for each of `count` matrices, row by row in memory, one after the other: C is rows x
// columns, op(A) rows x inner. Products of 16 bits are added up in float32.
struct Product {
    int64_t rows, columns, inner;
    const void* a;
    bool a_transposed; // A is inner x rows
    const void* b;
    bool b_transposed; // B is columns x inner
    void* c;
    float factor;
    int64_t count;
};

class Cublas {
public:
    // Throws Unsupported where there is none.
    Cublas();
    ~Cublas();
    Cublas(const Cublas&) = delete;
    Cublas& operator=(const Cublas&) = delete;

    void multiply(const Product& product, Element element, cudaStream_t stream) const;

private:
    struct Functions;
    void* library_ = nullptr;
    void* handle_ = nullptr;
    std::unique_ptr<Functions> functions_;
};

} // namespace hw4::bench::gpu_side
