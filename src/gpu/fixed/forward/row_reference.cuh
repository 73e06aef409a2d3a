// Under fixed: a row's reference, and what a tile's weights do to it and to the sums.
#pragma once

#include "src/gpu/fixed/forward/running_sums.cuh"
#include "src/gpu/fixed/forward/tile_weights.cuh"

namespace hw4::gpu::fixed_point {

// R of a row. Where scores have fractions, all M are integers far below 2^24, and R is kept as an integer, in quarters
// like the largest scores that it is compared with, which takes fewer instructions and gives the same bits; else as a
// float. All tiles of a row are of one of these kinds.
struct RowReference {
    float held; // the float, or an integer's bits, which may be those of no number: they are only moved

    // Below all M: minus infinity as a float, and -2^23 quarters as an integer, where no score is beyond 2^18.
    static __device__ RowReference none() { return {-HUGE_VALF}; }

    // How far M is above, as powers of two count it.
    __device__ __forceinline__ float lead_of(float M) const { return M - held; }
    __device__ __forceinline__ int lead_of(int quarters) const { return (quarters - integer()) >> 2; }

    __device__ __forceinline__ bool is_raised_by(float M) const { return fixed::raises(M, held); }
    __device__ __forceinline__ bool is_raised_by(int quarters) const {
        return quarters - integer() >= 4 * (static_cast<int>(fixed::kReferenceSlack) + 1);
    }
    // Which of the two it is can be seen: the integers are the bits of denormals and of no numbers, and no M is those.
    __device__ __forceinline__ float value() const {
        constexpr int kBeyond = 1 << 23;
        const bool is_integer = integer() >= -kBeyond && integer() < kBeyond;
        return is_integer ? static_cast<float>(integer() >> 2) : held;
    }

    __device__ __forceinline__ void set(float M) { held = M; }
    __device__ __forceinline__ void set(int quarters) { held = float_of(static_cast<uint32_t>(quarters & ~3)); }

private:
    __device__ __forceinline__ int integer() const { return static_cast<int>(bits_of(held)); }
};

// l and h; finds what the tile's values weigh.
template <class Weights, int kParts, int kSums>
__device__ __forceinline__ void add_weights(RunningSums<RowReference, kParts, kSums>& running, const Weights& weights,
                                            const RowPair& pair, int v_lead, float (&weight)[kRowsEach]) {
    using Reference = decltype(weights.reference(0));
    Reference M[kRowsEach];
    bool raised = false;
#pragma unroll
    for (int row = 0; row < kRowsEach; ++row) {
        M[row] = weights.reference(row);
        raised |= running.reference[row].is_raised_by(M[row]);
    }
    if (__builtin_expect(__any_sync(~0u, raised), 0)) {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row)
            if (running.reference[row].is_raised_by(M[row])) {
                running.rescale(row, fixed::weight_of_tile(-running.reference[row].lead_of(M[row])));
                running.reference[row].set(M[row]);
            }
    }
#pragma unroll
    for (int row = 0; row < kRowsEach; ++row) {
        const Reference lead = running.reference[row].lead_of(M[row]);
        const float part = weights.part(row);
        running.l[row] = fused(static_cast<float>(pair.sum[row]), part * fixed::weight_of_tile(lead), running.l[row]);
        weight[row] = part * fixed::weight_of_tile(lead + static_cast<Reference>(v_lead));
        running.h[row] += weight[row];
    }
}

} // namespace hw4::gpu::fixed_point
