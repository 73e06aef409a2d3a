// 2^x as the contract fixed16 has it, by the card's own instruction or by the table that says what it has to give.
#pragma once

#include "src/contracts/fixed16/forward.h"

namespace hw4::gpu::fixed_point {

constexpr uint32_t kInteger = 0x4b000000u; // the bits of 2^23: 2^23 + n, n below 2^23, has n in the lower ones

// The instruction that graphics cards have for it. For arguments from 0 on it gives what the table has, on every card
// that was looked at; which card does is found out before (card_powers.h).
struct PowersByInstruction {
    static __device__ __forceinline__ float of(float x) {
        float y;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    }

    // The bits of 2^23 + P + more, of a weight whose exponent this is.
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

static __device__ const fixed16::Exp2Table kTableOnCard = fixed16::kExp2Table;

struct PowersByTable {
    static __device__ __forceinline__ uint32_t weight_word(float exponent, int more) {
        const auto n = static_cast<int32_t>(larger(exponent, -1.0f) * fixed16::kTableSize);
        return kInteger + static_cast<uint32_t>(fixed16::weight_at(n, entry(n)) + more);
    }

    static __device__ __forceinline__ float tile_weight(float lead) {
        const int32_t n = fixed16::lead_exponent(lead);
        return fixed16::tile_weight(n, entry(n));
    }

private:
    static __device__ __forceinline__ uint32_t entry(int32_t n) {
        return __ldg(kTableOnCard.fraction + (n & (fixed16::kTableSize - 1)));
    }
};

// Either of these, in one kernel.
struct PowersAsTold {
    bool by_table;

    template <class Use>
    __device__ __forceinline__ void choose(const Use& use) const {
        if (by_table)
            use(PowersByTable{});
        else
            use(PowersByInstruction{});
    }
};

} // namespace hw4::gpu::fixed_point
