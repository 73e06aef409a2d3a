// What the kernels of half precision are launched with.
#pragma once

#include <cmath>
#include <cstdint>

namespace hw4::gpu::half_forward {

enum class NumberType { bf16, fp16 };

// Rows of 16-bit numbers in device memory, whose columns follow one another. Distances in elements.
struct Operand {
    void* at = nullptr;
    int64_t row = 0;
    int64_t head = 0;
    int64_t batch = 0;
};

// O = softmax(Q K^T / sqrt(d)) V. Under the causal mask query i sees keys 0 to i + keys - queries; where that is none,
// its row of O is 0 and its logsumexp -infinity.
struct Args {
    NumberType type = NumberType::bf16;
    int64_t batches = 1;
    int64_t heads = 1;
    int64_t kv_heads = 1; // a divisor of heads
    int64_t queries = 1;
    int64_t keys = 1;
    int64_t dim = 1;
    bool causal = false;
    Operand q;
    Operand k;
    Operand v;
    Operand out;
    float* lse = nullptr;        // [batch][head][query], natural logarithms; null: nobody asks for them
    unsigned* counter = nullptr; // 0 before and after a launch, of one launch at a time; null: blocks in a fixed order

    int64_t units() const { return batches * heads; }
    float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(dim))); }
    // Of exponents of 2.
    float log2_scale() const { return static_cast<float>(1.4426950408889634074 / std::sqrt(static_cast<double>(dim))); }
};

} // namespace hw4::gpu::half_forward
