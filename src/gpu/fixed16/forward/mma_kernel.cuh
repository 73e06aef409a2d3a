// Attention under the contract fixed16 by mma.sync: what the group of a block (src/gpu/fixed/forward/mma_block.cuh)
// does.
#pragma once

#include "src/gpu/fixed/forward/mma_block.cuh"
#include "src/gpu/fixed16/forward/group.cuh"

namespace hw4::gpu::fixed_point {

// The three products of two digits of A with those of B's planes, for 8 columns; kSigned: A's digits have a sign.
template <int kRowBytes, bool kSigned, int kN>
__device__ __forceinline__ void multiply_pairs(TwoLevels<kN>& sums, int column_group, const uint32_t (&low)[4],
                                               const uint32_t (&high)[4], const unsigned char* planes, int plane_bytes,
                                               int row, int at) {
    uint32_t b[2][2];
#pragma unroll
    for (int digit = 0; digit < 2; ++digit) {
        b[digit][0] = word_at<kRowBytes>(planes + digit * plane_bytes, row, at);
        b[digit][1] = word_at<kRowBytes>(planes + digit * plane_bytes, row, at + 16);
    }
    int32_t* const l1 = sums.l + 4 * column_group;
    multiply<kSigned>(l1 + kN, high, b[1][0], b[1][1]);
    multiply<kSigned>(l1, high, b[0][0], b[0][1]);
    multiply<kSigned>(l1, low, b[1][0], b[1][1]);
}

// The products of a block.
template <class T>
struct MmaPairProducts : MmaTiles<T> {
    using Layout = typename T::Layout;
    static constexpr int kKeys = TwoDigits::kTileKeys;

    __device__ __forceinline__ void begin_scores(unsigned tile, PairLevels& s) const {
#pragma unroll
        for (int i = 0; i < kPairScores; ++i) {
            s.l[i] = 0;
            s.l[kPairScores + i] = kScoreStart;
        }
        this->wait_for(tile, 0);
#pragma unroll(T::kDim > 64 ? 1 : T::kDim / 32)
        for (int at = this->lane_byte(); at < T::kDim; at += 32) {
            uint32_t a[2][4];
            this->load_queries(at, a);
#pragma unroll
            for (int keys = 0; keys < kKeys / 8; ++keys)
                multiply_pairs<T::kDim, true>(s, keys, a[0], a[1], this->memory.planes[0], Layout::kPlane,
                                              8 * keys + this->lane_row(), at);
        }
    }

    __device__ __forceinline__ void end_scores(unsigned tile, const PairLevels&) const { this->fetch_next(tile, 0); }

    template <int kCount>
    __device__ __forceinline__ void add_values(unsigned tile, int part, int first, const StepWords (&words)[kPairSteps],
                                               TwoLevels<Layout::kColumns / 2>& y) const {
        if (first == 0) {
#pragma unroll
            for (int32_t& sum : y.l) sum = 0;
            if (part == 0) this->wait_for(tile, 1);
        }
#pragma unroll
        for (int step = first; step < first + kCount; ++step)
#pragma unroll
            for (int columns = 0; columns < Layout::kColumns / 8; ++columns)
                multiply_pairs<kKeys, false>(y, columns, words[step].low, words[step].high, this->values(part),
                                             Layout::kPartPlane, 8 * columns + this->lane_row(),
                                             32 * step + this->lane_byte());
    }

    __device__ __forceinline__ void end_values(unsigned tile, int part, const TwoLevels<Layout::kColumns / 2>&) const {
        if (part == Layout::kParts - 1) this->fetch_next(tile, 1);
    }
};

} // namespace hw4::gpu::fixed_point
