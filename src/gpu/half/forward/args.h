// What the kernels of half precision are launched with.
#pragma once

#include <cmath>
#include <cstdint>

#include "src/contracts/row_statistics.h"
#include "src/gpu/launch.h"
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

// O = softmax(Q K^T / sqrt(d)) V. A row that sees no key is 0.
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
    unsigned* counter = nullptr; // for one launch at a time, which clears it; null: blocks take jobs in a fixed order

    int64_t units() const { return batches * heads; }
    bool causal() const { return sight.more != 0; }
    // Of exponents of 2.
    float log2_scale() const {
        return static_cast<float>(1.4426950408889634074 / std::sqrt(static_cast<double>(root_of > 0 ? root_of : dim)));
    }
};

// Columns of a row: whole pieces of 16 bytes.
constexpr int64_t padded_columns(int64_t dim) { return (dim + 7) / 8 * 8; }

inline Operand operand_of(const Tensor& tensor) { return {tensor.data, tensor.row, tensor.head, tensor.batch}; }

// What a launch asks of forward, on tensors of 16-bit numbers whose rows have padded_columns().
inline Args args_of(const Launch& launch) {
    const Problem& problem = launch.problem;
    Args args;
    args.type = problem.element == Element::bf16 ? NumberType::bf16 : NumberType::fp16;
    args.batches = problem.batches;
    args.heads = problem.heads;
    args.kv_heads = problem.kv_heads;
    args.queries = launch.queries();
    args.keys = problem.keys;
    args.dim = padded_columns(problem.dim);
    args.root_of = problem.dim;
    args.sight = sight_of(problem.mask, problem.queries, problem.keys);
    args.sight.first += launch.first_query * args.sight.more;
    args.q = operand_of(launch.in[0].from_row(launch.first_query));
    args.k = operand_of(launch.in[1]);
    args.v = operand_of(launch.in[2]);
    args.out = operand_of(launch.out[0].from_row(launch.first_query));
    args.statistics = launch.statistics == nullptr ? nullptr : launch.statistics + launch.first_query;
    args.statistics_unit = problem.queries;
    args.counter = static_cast<unsigned*>(launch.scratch);
    return args;
}

} // namespace hw4::gpu::half_forward
