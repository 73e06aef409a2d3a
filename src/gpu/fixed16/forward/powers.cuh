// 2^x as the contract fixed16 defines it, with the GPU's own instruction.
#pragma once

#include "src/contracts/fixed16/forward.h"

namespace hw4::gpu::fixed_point {

constexpr uint32_t kInteger = 0x4b000000u; // the bits of 2^23: the low bits of 2^23 + n are n, for n below 2^23

// The GPU's instruction for powers of 2. For arguments from 0 on it gave the table's entries on every GPU that was
// tried; each GPU is checked first (card_powers.cu).
struct PowersByInstruction {
    static __device__ __forceinline__ float of(float x) {
        float y;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    }

    // The bits of 2^23 + P + more, for a weight with this exponent.
    static __device__ __forceinline__ uint32_t weight_word(float exponent, int more) {
        return bits_of(of(exponent) + (0x1p23f + static_cast<float>(more)));
    }

    static __device__ __forceinline__ float tile_weight(float lead) {
        return of(fmaxf(lead - fixed16::kLeastLead, 0.0f)) * 0x1p-96f;
    }

    template <class Use>
    __device__ __forceinline__ void choose(const Use& use) const {
        use(*this);
    }
};

} // namespace hw4::gpu::fixed_point
