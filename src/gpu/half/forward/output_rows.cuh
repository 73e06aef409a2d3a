// The rows of a thread (running_rows.cuh) on their way out.
#pragma once

#include "src/gpu/half/forward/args.h"
#include "src/gpu/half/forward/numbers.cuh"
#include "src/gpu/half/forward/running_rows.cuh"

namespace hw4::gpu::half_forward {

// Where the rows of a lane go: null for one that does not exist.
struct OutputRows {
    uint16_t* row[2];
    int dim;
};

// Words of four neighbouring lanes change places, so that each has 16 bytes that follow one another: lane l those of
// the l-th of four words' columns.
__device__ __forceinline__ uint4 turn_words(const uint32_t (&word)[4]) {
    const bool odd = threadIdx.x % 2 != 0;
    const bool upper = threadIdx.x % 4 >= 2;
    const uint32_t low = __shfl_xor_sync(kAllLanes, odd ? word[0] : word[1], 1);
    const uint32_t high = __shfl_xor_sync(kAllLanes, odd ? word[2] : word[3], 1);
    // This pair of lanes' part of words 0 (odd lanes: 1) and of words 2 (3).
    const uint32_t lower_pair[2] = {odd ? low : word[0], odd ? word[1] : low};
    const uint32_t upper_pair[2] = {odd ? high : word[2], odd ? word[3] : high};
    const uint32_t first = __shfl_xor_sync(kAllLanes, upper ? lower_pair[0] : upper_pair[0], 2);
    const uint32_t second = __shfl_xor_sync(kAllLanes, upper ? lower_pair[1] : upper_pair[1], 2);
    return upper ? make_uint4(first, second, upper_pair[0], upper_pair[1])
                 : make_uint4(lower_pair[0], lower_pair[1], first, second);
}

template <class Number>
__device__ __forceinline__ uint32_t output_word(float low, float high, float inverse) {
    return Number::pack(Number::finite(__fmul_rn(low, inverse)), Number::finite(__fmul_rn(high, inverse)));
}

// All lanes of a warp call it. Rows begin at boundaries of 16 bytes, and dim is a multiple of 8.
template <class Number, int kN>
__device__ __forceinline__ void store_rows(const float (&o)[kN], const float (&inverse)[2], const OutputRows& to) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
        for (int part = 0; part < kN / 16; ++part) {
            uint32_t word[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int i = 16 * part + 4 * j + 2 * row;
                word[j] = output_word<Number>(o[i], o[i + 1], inverse[row]);
            }
            const uint4 turned = turn_words(word);
            const int column = 32 * part + 8 * static_cast<int>(threadIdx.x % 4);
            if (to.row[row] != nullptr && column < to.dim) *reinterpret_cast<uint4*>(to.row[row] + column) = turned;
        }
    }
}

// The same for rows that begin anywhere, of any dim.
template <class Number, int kN>
__device__ __forceinline__ void store_rows_apart(const float (&o)[kN], const float (&inverse)[2],
                                                 const OutputRows& to) {
#pragma unroll
    for (int i = 0; i < kN; i += 2) {
        const int row = i % 4 / 2;
        const int column = i / 4 * 8 + 2 * static_cast<int>(threadIdx.x % 4);
        const uint32_t word = output_word<Number>(o[i], o[i + 1], inverse[row]);
        if (to.row[row] == nullptr) continue;
        if (column < to.dim) to.row[row][column] = static_cast<uint16_t>(word);
        if (column + 1 < to.dim) to.row[row][column + 1] = static_cast<uint16_t>(word >> 16);
    }
}

// A lane's rows are `row` and the one 8 below, of its job's head; those before the first query or beyond the last
// go nowhere. By all lanes of a warp. kWhole: all operands take pieces of 16 bytes.
template <class Number, bool kWhole, int kN>
__device__ __forceinline__ void store_job(const KernelArgs& args, const Job& job, int row, RunningRows& rows,
                                          const float (&o)[kN]) {
    float inverse[2];
    rows.end(inverse);
    uint16_t* const head = static_cast<uint16_t*>(args.out.at) + job.batch * args.out.batch + job.head * args.out.head;
    OutputRows to{{nullptr, nullptr}, args.dim};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int query = row + 8 * i;
        if (query < 0 || query >= args.view.queries) continue;
        to.row[i] = head + query * args.out.row;
        if (args.statistics != nullptr && threadIdx.x % 4 == 0) {
            const int64_t unit = int64_t{job.batch} * args.work.heads + job.head;
            args.statistics[unit * args.statistics_unit + query] = rows.statistics(i, args.log2_scale);
        }
    }
    if (kWhole || args.whole_pieces)
        store_rows<Number>(o, inverse, to);
    else
        store_rows_apart<Number>(o, inverse, to);
}

} // namespace hw4::gpu::half_forward

namespace hw4::gpu::half_backward {

// ---- What a pair of a query and a key is, and how gradients leave

// P. Where the origin is 0, as it is unless scores are huge, nothing is taken from the score.
__device__ __forceinline__ float weight_of(float score, float origin, float level, float log2_scale) {
    return half_forward::power_of_2(__fmaf_rn(__fsub_rn(score, origin), log2_scale, -level));
}

// Numbers of the type, that become infinite where they are too large: the reader refuses those.
template <class Number>
struct GradientsOf : Number {
    static __device__ __forceinline__ float finite(float x) { return x; }
};

} // namespace hw4::gpu::half_backward
