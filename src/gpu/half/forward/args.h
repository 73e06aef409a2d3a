// What the kernels of half precision are launched with.
#pragma once

#include <cmath>
#include <cstdint>

#include "src/contracts/row_statistics.h"
#include "src/problem/mask.h"

namespace hw4::gpu::half_forward {

enum class NumberType { bf16, fp16 };

// Rows of 16-bit numbers in device memory, whose columns follow one another. Distances in elements.
struct Operand {
    void* at = nullptr;
    int64_t row = 0;
    int64_t head = 0;
    int64_t batch = 0;
};

// O = softmax(Q K^T / sqrt(d)) V. A row that sees no key is 0. O may be where Q is: only who has read rows of Q writes
// them.
struct Args {
    NumberType type = NumberType::bf16;
    int64_t batches = 1;
    int64_t heads = 1;
    int64_t kv_heads = 1; // a divisor of heads
    int64_t queries = 1;
    int64_t keys = 1;
    int64_t dim = 1;
    int64_t root_of = 0; // whose root divides the scores, where dim is more, with columns of zeros; 0: dim
    Sight sight{1, 0};   // of the queries, from the first on
    Operand q;
    Operand k;
    Operand v;
    Operand out;
    RowStatistics* statistics = nullptr; // [batch and head][query]; null: nobody asks for them
    int64_t statistics_unit = 0;         // from one head to the next
    unsigned* counter = nullptr; // 0 before and after a launch, of one launch at a time; null: blocks in a fixed order

    int64_t units() const { return batches * heads; }
    bool causal() const { return sight.more != 0; }
    // Of exponents of 2.
    float log2_scale() const {
        return static_cast<float>(1.4426950408889634074 / std::sqrt(static_cast<double>(root_of > 0 ? root_of : dim)));
    }
};

} // namespace hw4::gpu::half_forward
