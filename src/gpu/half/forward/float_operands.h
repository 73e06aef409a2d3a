// Operands of a launch, which are float32, rounded to 16 bits in its scratch memory, and O as floats again.
#pragma once

#include "src/gpu/common/forward_args.h"
#include "src/gpu/half/forward/args.h"
#include "src/gpu/launch.h"

namespace hw4::gpu::half_forward {

// Columns of a row of 16-bit numbers, the last ones 0: pieces of 16 bytes.
constexpr int64_t padded_columns(int64_t dim) { return (dim + 7) / 8 * 8; }

// Rows of all heads, one after the other.
inline Operand packed(void* at, int64_t rows, int64_t heads, int64_t columns) {
    return {at, columns, rows * columns, heads * rows * columns};
}

constexpr int kMostRounded = 5; // operands at once

// `rows` of each of `heads` heads, packed as numbers.
template <class T>
struct RowsOfHeads {
    Heads<T> floats;
    void* numbers;
    int64_t rows;
    int64_t heads;
};

// A counter becomes 0 on the way.
void round_all(const RowsOfHeads<const float>* operands, int count, int dim, unsigned* counter, NumberType type,
               cudaStream_t stream);
void widen(const RowsOfHeads<float>& operand, int dim, NumberType type, cudaStream_t stream);

size_t rounded_bytes(const Problem& problem);

// To the beginning of the scratch memory, rounded_bytes() of it: a counter of 0, and Q, K and V packed, each row with
// zeros up to a multiple of 8 columns. O is to be where Q is.
Args round_operands(const Launch& launch, NumberType type, cudaStream_t stream);

// O to where the launch wants it.
void widen_output(const Launch& launch, const Args& args, cudaStream_t stream);

} // namespace hw4::gpu::half_forward
