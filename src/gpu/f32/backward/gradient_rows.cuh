// Shared by the rungs in which a warp sums a row of gradients: a row of dQ over keys, or rows of dK and dV over the
// queries of all heads that share them. Both use the same code with the tensors' roles swapped: a product of two rows
// is the same to the bit in either order.
#pragma once

#include "src/gpu/common/warp.cuh"
#include "src/gpu/f32/backward/gradient_args.h"

namespace hw4::gpu {

constexpr int kTileRows = kWarpSize;         // the other rows of a tile, one per lane
constexpr int kChunkColumns = kScoreColumns; // a lane has one column in each chunk
static_assert(kSegmentRows % kTileRows == 0 && kChunkColumns == kWarpSize);

// A unit's rows of Q or K, which give scores, and the corresponding rows of dO or V, which give dP.
struct TwoOperands {
    const float* at[2];
    size_t row[2]; // distance from one row to the next
    int64_t rows;

    __device__ __forceinline__ const float* of(int operand, int64_t index) const {
        return at[operand] + static_cast<size_t>(index) * row[operand];
    }
};

__device__ __forceinline__ TwoOperands queries_of(const GradientArgs& args, uint32_t unit) {
    return {{args.forward.q.of(unit), args.dout.of(unit)}, {args.forward.q.row, args.dout.row}, args.forward.queries};
}

__device__ __forceinline__ TwoOperands keys_of(const GradientArgs& args, uint32_t kv_unit) {
    const ForwardArgs& forward = args.forward;
    return {{forward.k.of(kv_unit), forward.v.of(kv_unit)}, {forward.k.row, forward.v.row}, forward.keys};
}

// Adjacent other rows, and the contract's segments in which a sum takes them: the first row of the segment that comes
// after a given number of segments.
struct OtherRows {
    int64_t first;
    int64_t end;

    HW4_INLINE bool has(int64_t row) const { return row >= first && row < end; }
    HW4_INLINE int64_t segments() const {
        return first < end ? (end - 1) / kSegmentRows - first / kSegmentRows + 1 : 0;
    }
    template <bool kDescending>
    HW4_INLINE int64_t segment(int64_t taken) const {
        const int64_t index = kDescending ? (end - 1) / kSegmentRows - taken : first / kSegmentRows + taken;
        return index * kSegmentRows;
    }
    template <bool kDescending>
    HW4_INLINE bool ends_group(int64_t taken) const {
        const int64_t next = segment<kDescending>(taken) + (kDescending ? 0 : kSegmentRows);
        return next % kGroupRows == 0 || taken + 1 == segments();
    }
};

// The two roles: the sums are for rows of queries or of keys. Sum 0 adds dS times the others' first operand; sum 1, if
// there is one, adds P times their second operand.
struct ForQueries { // dQ
    static constexpr int kSums = 1;
    static constexpr bool kDescending = true;

    HW4_INLINE static uint32_t units(const GradientArgs& args) { return args.forward.units; }
    HW4_INLINE static int64_t rows(const GradientArgs& args) { return args.forward.queries; }
    HW4_INLINE static uint32_t heads(const GradientArgs&) { return 1; } // of the other rows
    HW4_INLINE static uint32_t other_unit(const GradientArgs& args, uint32_t unit, uint32_t) {
        return args.forward.kv_unit(unit);
    }
    __device__ __forceinline__ static TwoOperands own(const GradientArgs& args, uint32_t unit) {
        return queries_of(args, unit);
    }
    __device__ __forceinline__ static TwoOperands others(const GradientArgs& args, uint32_t unit) {
        return keys_of(args, unit);
    }
    // The other rows that form pairs with some of the rows [first, end).
    HW4_INLINE static OtherRows range(const GradientArgs& args, int64_t, int64_t end) {
        return {0, args.forward.sight.of(end - 1)};
    }
    HW4_INLINE static const RowFacts& facts(const GradientArgs& args, uint32_t unit, int64_t row, uint32_t, int64_t) {
        return args.row(unit, row);
    }
    HW4_INLINE static const Heads<float>& out(const GradientArgs& args, int) { return args.forward.out; }
};

struct ForKeys { // dK and dV
    static constexpr int kSums = 2;
    static constexpr bool kDescending = false;

    HW4_INLINE static uint32_t units(const GradientArgs& args) { return args.forward.kv_units(); }
    HW4_INLINE static int64_t rows(const GradientArgs& args) { return args.forward.keys; }
    HW4_INLINE static uint32_t heads(const GradientArgs& args) { return args.forward.group.number(); }
    HW4_INLINE static uint32_t other_unit(const GradientArgs& args, uint32_t unit, uint32_t head) {
        return unit * args.forward.group.number() + head;
    }
    __device__ __forceinline__ static TwoOperands own(const GradientArgs& args, uint32_t unit) {
        return keys_of(args, unit);
    }
    __device__ __forceinline__ static TwoOperands others(const GradientArgs& args, uint32_t unit) {
        return queries_of(args, unit);
    }
    HW4_INLINE static OtherRows range(const GradientArgs& args, int64_t first, int64_t) {
        return {args.first_seeing(first), args.forward.queries};
    }
    HW4_INLINE static const RowFacts& facts(const GradientArgs& args, uint32_t, int64_t, uint32_t other_unit,
                                            int64_t other) {
        return args.row(other_unit, other);
    }
    HW4_INLINE static const Heads<float>& out(const GradientArgs& args, int sum) {
        return sum == 0 ? args.dk : args.dv;
    }
};

// The factors of the other rows of a tile, for sum 0 and sum 1: dS and P of a lane's pair.
struct Factors {
    float of[2];
};

__device__ __forceinline__ Factors factors_of(const GradientArgs& args, float score, float dP, const RowFacts& row) {
    Factors factors;
    form_pair(score, dP, reference_of(row, args.forward.scale), row, args.forward.scale, factors.of[1], factors.of[0]);
    return factors;
}

// A lane's columns of a row's sums, at the levels of the contract.
template <int kSumCount, int kChunks>
struct LaneSums {
    static constexpr int kSums = kSumCount;
    float chain[kSums][kChunks] = {}; // of a segment
    float group[kSums][kChunks] = {};
    float total[kSums][kChunks] = {}; // of a head

    __device__ __forceinline__ void close_segment() { close(group, chain); }
    __device__ __forceinline__ void close_group() { close(total, group); }

private:
    // Adds the parts and sets them to 0.
    __device__ __forceinline__ static void close(float (&sums)[kSums][kChunks], float (&parts)[kSums][kChunks]) {
#pragma unroll
        for (int sum = 0; sum < kSums; ++sum)
#pragma unroll
            for (int chunk = 0; chunk < kChunks; ++chunk) {
                sums[sum][chunk] += parts[sum][chunk];
                parts[sum][chunk] = 0.0f;
            }
    }
};

// Adds a row's totals of a head to the totals of earlier heads, which are stored in the output: registers are needed
// for the loop over tiles.
template <class Own, int kChunks>
__device__ __forceinline__ void close_head(LaneSums<Own::kSums, kChunks>& sums, const GradientArgs& args, uint32_t unit,
                                           int64_t row, uint32_t head, int lane) {
    const bool last = head + 1 == Own::heads(args);
#pragma unroll
    for (int sum = 0; sum < Own::kSums; ++sum) {
        const Heads<float>& out = Own::out(args, sum);
        float* const to = out.of(unit) + static_cast<size_t>(row) * out.row + lane;
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
            if (chunk * kChunkColumns + lane >= args.forward.dim) break;
            float& x = to[chunk * kChunkColumns];
            const float all = (head == 0 ? 0.0f : x) + sums.total[sum][chunk];
            x = !last ? all : sum == 0 ? scaled_gradient(all, args.scale) : value_gradient(all);
            sums.total[sum][chunk] = 0.0f;
        }
    }
}

} // namespace hw4::gpu
