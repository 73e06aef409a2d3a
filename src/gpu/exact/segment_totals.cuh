// The end of a segment for register tiles: totals wait in the output buffer, since registers are full.
#pragma once

#include "register_tile.cuh"

namespace hw4::gpu {

// Four columns of the output and back, or as many of them as there are.
template <class T>
__device__ __forceinline__ void load_columns(float* to, const float* from, int columns) {
    if (T::kWhole) {
        const float4 x = load4(from);
        to[0] = x.x;
        to[1] = x.y;
        to[2] = x.z;
        to[3] = x.w;
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (e < columns) to[e] = from[e];
    }
}

template <class T>
__device__ __forceinline__ void store_columns(float* to, const float* x, int columns) {
    if (T::kWhole) {
        store4(to, make_float4(x[0], x[1], x[2], x[3]));
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (e < columns) to[e] = x[e];
    }
}

// A row's eight sum lanes closed: lanes across are bits 0, 2 (and 3) of the lane. With four lanes across each thread
// has two of the eight sums, 4 apart, so the halves are closed one by one.
template <class T>
__device__ __forceinline__ float closed_sums(const float (&sums)[T::kSums]) {
    float closed[T::kSums];
#pragma unroll
    for (int h = 0; h < T::kSums; ++h) {
        closed[h] = sums[h];
        closed[h] += __shfl_xor_sync(kAllLanes, closed[h], 1);
        closed[h] += __shfl_xor_sync(kAllLanes, closed[h], 4);
        if (T::kC == 8) closed[h] += __shfl_xor_sync(kAllLanes, closed[h], 8);
    }
    return T::kSums == 1 ? closed[0] : closed[0] + closed[T::kSums - 1];
}

// Ends a segment: adds the running sums to the totals, which wait in the output, and starts them again; after the last
// segment writes the result. Eight columns at a time, all their totals asked for before the first is used: one wait
// instead of many, in the registers that the scores have left.
template <class T>
__device__ __forceinline__ void fold(float (&o)[kRowsPerThread][T::kCT], float (&sums)[kRowsPerThread][T::kSums],
                                     float* total_l, const Position& at, const BatchMatrices& m, const KernelArgs& args,
                                     bool first, bool last) {
    constexpr int kPart = 8;
    static_assert(T::kCT % kPart == 0, "columns are folded eight at a time");
    const auto row_there = [&](int i) { return at.first_row + row_in_block<T>(at, i) < static_cast<int>(args.tokens); };
    const auto out_of = [&](int i, int x) {
        return m.out + static_cast<size_t>(at.first_row + row_in_block<T>(at, i)) * args.out_stride + x * T::kC +
               4 * at.across;
    };
    const auto columns_left = [&](int x) { return T::kWhole ? 4 : args.dim - (x * T::kC + 4 * at.across); };
    float inv[kRowsPerThread];
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
        const int row = row_in_block<T>(at, i);
        const float l = (first ? 0.0f : total_l[row]) + closed_sums<T>(sums[i]);
        __syncwarp(); // all lanes across have read the old total
        if (at.across == 0) total_l[row] = l;
        inv[i] = 1.0f / l;
#pragma unroll
        for (int h = 0; h < T::kSums; ++h) sums[i][h] = 0.0f;
    }
#pragma unroll
    for (int part = 0; part < T::kCT; part += kPart) {
        float total[kRowsPerThread][kPart] = {};
        if (!first) {
#pragma unroll
            for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
                for (int x = 0; x < kPart; x += 4)
                    if (row_there(i)) load_columns<T>(&total[i][x], out_of(i, part + x), columns_left(part + x));
        }
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i) {
#pragma unroll
            for (int x = 0; x < kPart; ++x) {
                const float sum = total[i][x] + o[i][part + x];
                total[i][x] = last ? result(sum, inv[i]) : sum;
                o[i][part + x] = 0.0f;
            }
#pragma unroll
            for (int x = 0; x < kPart; x += 4)
                if (row_there(i)) store_columns<T>(out_of(i, part + x), &total[i][x], columns_left(part + x));
        }
    }
}

} // namespace hw4::gpu
