// The state of a thread's rows while it goes through the keys, and their output.
#pragma once

#include "src/contracts/row_statistics.h"
#include "src/gpu/common/warp.cuh"
#include "src/gpu/half/forward/args.h"
#include "src/gpu/half/forward/numbers.cuh"

namespace hw4::gpu::half_forward {

// ---- While going through the keys. Sums of mma and of wgmma have the same layout over the lanes of a
// warp: a lane has columns 8j + 2 (lane % 4) + {0, 1} of row lane / 4 in sums 4j and 4j + 1, and of the row 8 below in
// 4j + 2 and 4j + 3. Four adjacent lanes share their two rows.
//
// A row's bytes depend only on its query and the keys that it sees: tiles of keys begin at multiples of
// their size, from the last visible one to the first; the order of a row's sums is written here; a
// hidden key in a visible tile has weight 0 and changes no sum. No step depends on what other
// rows need.

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// Sets scores of hidden keys to -infinity: those from `seen` on, for each row, counted from the lane's first column.
template <int kN>
__device__ __forceinline__ void hide_unseen(float (&s)[kN], int seen_first, int seen_second) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
        const int column = i / 4 * 8 + i % 2;
        if (column >= (i % 4 < 2 ? seen_first : seen_second)) s[i] = minus_infinity();
    }
}

struct RunningRows {
    // Weights are 2 to the power of scale * (score - top); top is the largest score so far. The largest score's own
    // weight, 1, is exact when it is rounded to the type. A top that stayed until a score is larger by some powers of
    // two would save most multiplications of sums, but if one key takes nearly all the weight, its rounded weight is
    // half an ulp off, and errors were half again as large.
    // Up to here scale * top is rounded, which adds the same error to all exponents of a row, at most 2^-14. Beyond,
    // where the error would be whole powers of 2, the top is first subtracted from the scores.
    static constexpr float kFar = 1024;

    float top[2] = {minus_infinity(), minus_infinity()};
    float sum[2] = {0, 0}; // of this lane's weights; at the end, of the row's

    // Turns scores into weights. Sums relative to the earlier tops are to be multiplied by `factor`, which is exactly 1
    // where a top stays. Returns whether a top of this thread changed: if none of a warp's sums has to be multiplied,
    // the warp may skip that, since times 1 they would be the same.
    template <int kN>
    __device__ __forceinline__ bool weigh(float (&s)[kN], float scale, float (&factor)[2]) {
        bool raised[2];
        float before[2];
        float tile[2]; // the tile's largest scores
        float base[2]; // exponents are relative to it
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
            if (base[row] == minus_infinity()) base[row] = 0; // the row has seen nothing yet
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

    // The final factors of the sums of values.
    __device__ __forceinline__ void end(float (&inverse)[2]) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            sum[row] = __fadd_rn(sum[row], __shfl_xor_sync(kAllLanes, sum[row], 1));
            sum[row] = __fadd_rn(sum[row], __shfl_xor_sync(kAllLanes, sum[row], 2));
            inverse[row] = sum[row] == 0.0f ? 0.0f : __frcp_rn(sum[row]);
        }
    }

    // The statistics of a finished row.
    __device__ __forceinline__ RowStatistics statistics(int row, float scale) const {
        if (sum[row] == 0.0f) return {0, 0, 0};
        const float base = __fmul_rn(top[row], scale);
        return fabsf(base) > kFar ? RowStatistics{0, top[row], sum[row]} : RowStatistics{base, 0, sum[row]};
    }

private:
    // For far rows; other rows of the warp need not be far: 0 is subtracted from theirs, which does not change them.
    // Two far scores may become equal when they are scaled, so the difference of tops is scaled instead. If a row comes
    // back near 0, its earlier weights are relative to a rounded top, if they still count at all.
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

// Packs weights as the left operand of the next product: sixteen keys at a time, four words each.
template <class Number, int kN>
__device__ __forceinline__ void pack_weights(uint32_t (&p)[kN / 8][4], const float (&s)[kN]) {
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) p[i / 4][i % 4] = Number::pack(s[2 * i], s[2 * i + 1]);
}

// ---- Output

// The places of a lane's rows in the output: null for a row that does not exist.
struct OutputRows {
    uint16_t* row[2];
    int dim;
};

// Exchanges words among four adjacent lanes: each gets 16 contiguous bytes, lane l the columns of the l-th word.
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

// All lanes of a warp call it. Rows are aligned to 16 bytes, and dim is a multiple of 8.
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

// The same for rows with any alignment and any dim.
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

// A lane's rows are `row` and `row + 8` of its job's head; rows before the first query or beyond the last are not
// stored. All lanes of a warp call it. kWhole: all tensors take pieces of 16 bytes.
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

// ---- A pair of a query and a key, and how gradients are stored

// P. If the origin is 0, as it is unless scores are huge, the score is unchanged.
__device__ __forceinline__ float weight_of(float score, float origin, float level, float log2_scale) {
    return half_forward::power_of_2(__fmaf_rn(__fsub_rn(score, origin), log2_scale, -level));
}

// Numbers of the type without a clamp: too large ones become infinite, and the reader refuses those.
template <class Number>
struct GradientsOf : Number {
    static __device__ __forceinline__ float finite(float x) { return x; }
};

} // namespace hw4::gpu::half_backward
