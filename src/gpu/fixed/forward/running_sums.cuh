// The state of a thread's two rows from tile to tile: references, running sums, and the output made of them.
#pragma once

#include "src/gpu/fixed/forward/digits.cuh"
#include "src/gpu/fixed/forward/elements.cuh"

namespace hw4::gpu::fixed_point {

// The numbers that turn a row's sums into its output.
struct RowEnd {
    float h;
    float inverse; // of l
};

// The state of a thread's two rows from tile to tile.
template <class Reference, int kParts, int kSums>
struct RunningSums {
    Reference reference[kRowsEach];
    float l[kRowsEach]; // of this lane's keys
    float h[kRowsEach];
    float o[kParts][kSums]; // in the order of the products: 4*g + 2*row + i

    static constexpr int kNumbers = 3 * kRowsEach + kParts * kSums;

    // Visits number after number.
    template <class Visit>
    __device__ void visit(const Visit& each) {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            each(reference[row].held);
            each(l[row]);
            each(h[row]);
        }
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int i = 0; i < kSums; ++i) each(o[part][i]);
    }

    __device__ void clear() {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            reference[row] = Reference::none();
            l[row] = h[row] = 0;
        }
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int i = 0; i < kSums; ++i) o[part][i] = 0;
    }

    // Rescales a row's sums for a new reference.
    __device__ __forceinline__ void rescale(int row, float alpha) {
        l[row] *= alpha;
        h[row] *= alpha;
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int i = 0; i < kSums; ++i)
                if (row_of(i) == row) o[part][i] *= alpha;
    }

    __device__ __forceinline__ void add_value(int part, int i, int32_t y, const float (&weight)[kRowsEach]) {
        o[part][i] = fused(static_cast<float>(y), weight[row_of(i)], o[part][i]);
    }

    // fixed::sum_of_lanes(), for each of the four lanes; all of a warp call it.
    __device__ __forceinline__ float sum_of_lanes(int row) const {
        const float of_two = l[row] + __shfl_xor_sync(~0u, l[row], 1);
        return of_two + __shfl_xor_sync(~0u, of_two, 2);
    }

    template <class Row>
    __device__ void store(int row, const Row& to, int dim, float inverse, fixed::Factors scale) const {
        const int first = static_cast<int>(threadIdx.x) % 4 * 2;
        const Row at = from(to, first);
        const auto result = [&](float x) { return fixed::fixed_result(x, h[row], inverse, scale); };
        if (dim == kColumns)
            store_columns(row, at, result);
        else
            store_up_to(dim - first, dim % 4 == 0, row, at, result);
    }

    // The same for a row with all columns; for kernels of many jobs.
    template <class Row>
    __device__ __forceinline__ void store_whole(int row, const Row& to, const RowEnd& end, fixed::Factors scale) const {
        store_columns(row, from(to, thread_number<true>() % 4 * 2),
                      [&](float x) { return fixed::fixed_result(x, end.h, end.inverse, scale); });
    }

private:
    static constexpr int kGroups = kSums / 4; // of eight columns; a thread has two of each, in either row
    static constexpr int kColumns = kParts * 2 * kSums;

    // One address, and offsets: the compiler would compute every address from the beginning.
    template <class Row>
    static __device__ __forceinline__ Row from(Row to, int first) {
        to.at += first;
        asm("" : "+l"(to.at));
        __builtin_assume(__isGlobal(to.at));
        return to;
    }

    // All columns. The results of a part are computed before the first is stored, so that none waits until the previous
    // one has left its registers.
    template <class Row, class Result>
    __device__ __forceinline__ void store_columns(int row, const Row& to, const Result& result) const {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            float2 pair[kGroups];
#pragma unroll
            for (int group = 0; group < kGroups; ++group)
                pair[group] =
                    make_float2(result(o[part][4 * group + 2 * row]), result(o[part][4 * group + 2 * row + 1]));
#pragma unroll
            for (int group = 0; group < kGroups; ++group)
                to.put_pair(part * 2 * kSums + 8 * group, pair[group].x, pair[group].y);
        }
    }

    // The existing columns, counted from the thread's first; both of a pair or neither if pairs can be stored.
    template <class Row, class Result>
    __device__ void store_up_to(int left, bool pairs, int row, const Row& to, const Result& result) const {
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
                const int column = part * 2 * kSums + 8 * group;
                const float a = result(o[part][4 * group + 2 * row]);
                const float b = result(o[part][4 * group + 2 * row + 1]);
                if (pairs) {
                    if (column < left) to.put_pair(column, a, b);
                } else {
                    if (column < left) to.put(column, a);
                    if (column + 1 < left) to.put(column + 1, b);
                }
            }
    }
};

} // namespace hw4::gpu::fixed_point
