// The rows of a thread, on their way through the keys and out.
#pragma once

#include "src/contracts/row_statistics.h"
#include "src/gpu/common/warp.cuh"
#include "src/gpu/half/forward/args.h"
#include "src/gpu/half/forward/numbers.cuh"

namespace hw4::gpu::half_forward {

// ---- On their way through the keys. Sums of mma and of wgmma are spread alike over the lanes of a
// warp: a lane has columns 8j + 2 (lane % 4) + {0, 1} of row lane / 4 in sums 4j and 4j + 1, and of the row 8 below in
// 4j + 2 and 4j + 3. Four neighbouring lanes share their two rows.
//
// A row's bytes depend on its query and the keys that it sees, on nothing else: tiles of keys begin at multiples of
// their size, from the last that is seen to the first; sums of a row are added up in an order that is written here; a
// key that is not seen, in a tile that is, has the weight 0 and leaves every sum as it was. No step asks what other
// rows need.

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// Scores of keys that a row does not see become -infinity: those from `seen` on, counted from the lane's first column,
// one of each row.
template <int kN>
__device__ __forceinline__ void hide_unseen(float (&s)[kN], int seen_first, int seen_second) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
        const int column = i / 4 * 8 + i % 2;
        if (column >= (i % 4 < 2 ? seen_first : seen_second)) s[i] = minus_infinity();
    }
}

struct RunningRows {
    // Weights are 2 to the power of scale * (score - top), the top being the largest score so far. Its own weight, 1,
    // is the same when it is rounded to the type; a top that stayed until a score is larger by some powers of two would
    // save most multiplications of sums, but where one key takes nearly all its rounded weight is half an ulp off, and
    // errors were half again as large.
    // Up to here scale * top is rounded, which adds the same to all exponents of a row, at most 2^-14. Beyond, where it
    // would be whole powers of 2, scores have the top taken from them first.
    static constexpr float kFar = 1024;

    float top[2] = {minus_infinity(), minus_infinity()};
    float sum[2] = {0, 0}; // of this lane's weights; of the row's, once it has ended

    // Scores become weights. What was summed up with the earlier tops is to be multiplied by `factor`; where a top
    // stays, that is exactly 1. True where one does not: if none of a warp's has to be multiplied, its sums may be left
    // alone, since times 1 they would be the same.
    template <int kN>
    __device__ __forceinline__ bool weigh(float (&s)[kN], float scale, float (&factor)[2]) {
        bool raised[2];
        float before[2];
        float tile[2]; // its largest scores
        float base[2]; // what exponents are counted from
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float largest[2] = {s[2 * row], s[2 * row + 1]};
#pragma unroll
            for (int i = 4 + 2 * row; i < kN; i += 4) {
                largest[0] = fmaxf(largest[0], s[i]);
                largest[1] = fmaxf(largest[1], s[i + 1]);
            }
            tile[row] = fmaxf(largest[0], largest[1]);
            tile[row] = fmaxf(tile[row], __shfl_xor_sync(kAllLanes, tile[row], 1));
            tile[row] = fmaxf(tile[row], __shfl_xor_sync(kAllLanes, tile[row], 2));
            before[row] = top[row];
            const float was = __fmul_rn(before[row], scale);
            const float now = __fmul_rn(tile[row], scale);
            raised[row] = tile[row] > before[row];
            if (raised[row]) top[row] = tile[row];
            base[row] = raised[row] ? now : was;
            if (base[row] == minus_infinity()) base[row] = 0; // nothing seen yet
            factor[row] = raised[row] ? power_of_2(__fsub_rn(was, base[row])) : 1.0f;
        }
        if (__any_sync(kAllLanes, fmaxf(fabsf(base[0]), fabsf(base[1])) > kFar))
            begin_at_tops(s, scale, before, base, factor, raised);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float part[2] = {0, 0};
#pragma unroll
            for (int i = 2 * row; i < kN; i += 4) {
                s[i] = power_of_2(__fmaf_rn(s[i], scale, -base[row]));
                s[i + 1] = power_of_2(__fmaf_rn(s[i + 1], scale, -base[row]));
                part[0] = __fadd_rn(part[0], s[i]);
                part[1] = __fadd_rn(part[1], s[i + 1]);
            }
            sum[row] = __fmaf_rn(sum[row], factor[row], __fadd_rn(part[0], part[1]));
        }
        return raised[0] || raised[1];
    }

    // What the sums of values are to be multiplied by in the end.
    __device__ __forceinline__ void end(float (&inverse)[2]) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            sum[row] = __fadd_rn(sum[row], __shfl_xor_sync(kAllLanes, sum[row], 1));
            sum[row] = __fadd_rn(sum[row], __shfl_xor_sync(kAllLanes, sum[row], 2));
            inverse[row] = sum[row] == 0.0f ? 0.0f : __frcp_rn(sum[row]);
        }
    }

    // The statistics of a row that has ended.
    __device__ __forceinline__ RowStatistics statistics(int row, float scale) const {
        if (sum[row] == 0.0f) return {0, 0, 0};
        const float base = __fmul_rn(top[row], scale);
        return fabsf(base) > kFar ? RowStatistics{0, top[row], sum[row]} : RowStatistics{base, 0, sum[row]};
    }

private:
    // For rows that are far, which others of the warp need not be: from theirs 0 is taken, which leaves them as they
    // are. Far away two scores may be the same when they are scaled, so what tops are apart is scaled. A row that comes
    // back has its earlier weights counted from a rounded top, if they are still worth anything.
    template <int kN>
    __device__ __forceinline__ void begin_at_tops(float (&s)[kN], float scale, const float (&before)[2],
                                                  float (&base)[2], float (&factor)[2], const bool (&raised)[2]) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const bool far = fabsf(base[row]) > kFar;
            if (far) {
                base[row] = 0;
                factor[row] = raised[row] ? power_of_2(__fmul_rn(__fsub_rn(before[row], top[row]), scale)) : 1.0f;
            }
            const float taken = far ? top[row] : 0.0f;
#pragma unroll
            for (int i = 2 * row; i < kN; i += 4) {
                s[i] = __fsub_rn(s[i], taken);
                s[i + 1] = __fsub_rn(s[i + 1], taken);
            }
        }
    }
};

template <int kN>
__device__ __forceinline__ void multiply_rows(float (&o)[kN], const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < kN; ++i) o[i] = __fmul_rn(o[i], factor[i % 4 / 2]);
}

// Weights as the left operand of the next product: sixteen keys after the other, four words each.
template <class Number, int kN>
__device__ __forceinline__ void pack_weights(uint32_t (&p)[kN / 8][4], const float (&s)[kN]) {
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) p[i / 4][i % 4] = Number::pack(s[2 * i], s[2 * i + 1]);
}

// ---- On their way out

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
