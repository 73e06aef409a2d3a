// 2^x as the contract fixed16 defines it, with the table that the GPU's own instruction must agree with. Separate from
// powers.cuh, since a file that includes this one has the table in its code.
#pragma once

#include "src/gpu/fixed16/forward/powers.cuh"

namespace hw4::gpu::fixed_point {

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

// Either of the two, in one kernel.
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
