// ARM's 128-bit vectors, which every aarch64 processor has. 3 x 8 accumulators, 3 + 2 inputs: 29 of 32 registers.
#include "src/cpu/fixed/neon.h"
#include "src/cpu/f32/attention_simd.h"
#include "src/cpu/f32/backward_simd.h"

namespace hw4::cpu {

HW4_INLINE NeonFloats operator-(NeonFloats a) { return vnegq_f32(a.x); }
HW4_INLINE NeonFloats add_exponent(NeonFloats y, NeonFloats t) {
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(y.x), vshlq_n_u32(vreinterpretq_u32_f32(t.x), 23)));
}

namespace {

struct Neon : NeonFloats, NeonWords {
    static constexpr int kWidth = 4;
    static constexpr int kRowVectors = 3;
    static constexpr int kColumns = 8;
    static constexpr size_t kAlign = 16;
    using Quad = float32x4_t;

    using NeonFloats::NeonFloats;
    HW4_INLINE Neon(NeonFloats floats) : NeonFloats(floats) {}
    static HW4_INLINE Neon load(const float* from) { return NeonFloats::load(from); }
    static HW4_INLINE Quad quad(const float* from) { return vld1q_f32(from); }
    template <int kLane>
    static HW4_INLINE Neon fused_lane(Neon a, Quad b, Neon c) {
        return vfmaq_laneq_f32(c.x, a.x, b, kLane);
    }
};

} // namespace

constexpr BlockKernel kF32Neon = Attention<Neon>::blocks([] { return true; });
constexpr BackwardKernel kF32NeonBackward = Backward<Neon>::steps(kF32Neon);

} // namespace hw4::cpu
