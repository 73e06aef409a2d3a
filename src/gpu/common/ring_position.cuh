// Where something is in a ring of stages in shared memory.
#pragma once

namespace hw4::gpu {

// A stage of the ring, and the parity of the round.
struct RingPosition {
    unsigned stage = 0;
    unsigned phase = 0;

    template <int kStages>
    __device__ __forceinline__ RingPosition plus(unsigned tiles) const {
        const bool again = stage + tiles >= kStages;
        return {stage + tiles - (again ? kStages : 0), phase ^ (again ? 1 : 0)};
    }
};

} // namespace hw4::gpu
