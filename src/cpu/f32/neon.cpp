// ARM's 128-bit vectors, which every aarch64 processor has. 3 x 8 accumulators, 3 + 2 inputs: 29 of 32 registers.
#include <arm_neon.h>

#include "src/cpu/f32/attention_simd.h"
#include "src/cpu/f32/backward_simd.h"

namespace hw4::cpu {
namespace {

struct Neon {
    static constexpr int kWidth = 4;
    static constexpr int kRowVectors = 3;
    static constexpr int kColumns = 8;
    static constexpr size_t kAlign = 16;
    using Quad = float32x4_t;

    float32x4_t x;

    Neon() = default;
    HW4_INLINE Neon(float32x4_t value) : x(value) {}
    HW4_INLINE explicit Neon(float value) : x(vdupq_n_f32(value)) {}
    static HW4_INLINE Neon load(const float* from) { return vld1q_f32(from); }
    HW4_INLINE void store(float* to) const { vst1q_f32(to, x); }
    static HW4_INLINE Quad quad(const float* from) { return vld1q_f32(from); }
    // to[t][row] = from[row][t], 4 x 4.
    static HW4_INLINE void transpose4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
        const float32x4x2_t low = vtrnq_f32(vld1q_f32(from), vld1q_f32(from + from_stride));
        const float32x4x2_t high = vtrnq_f32(vld1q_f32(from + 2 * from_stride), vld1q_f32(from + 3 * from_stride));
        vst1q_f32(to, vcombine_f32(vget_low_f32(low.val[0]), vget_low_f32(high.val[0])));
        vst1q_f32(to + to_stride, vcombine_f32(vget_low_f32(low.val[1]), vget_low_f32(high.val[1])));
        vst1q_f32(to + 2 * to_stride, vcombine_f32(vget_high_f32(low.val[0]), vget_high_f32(high.val[0])));
        vst1q_f32(to + 3 * to_stride, vcombine_f32(vget_high_f32(low.val[1]), vget_high_f32(high.val[1])));
    }
    template <int kLane>
    static HW4_INLINE Neon fused_lane(Neon a, Quad b, Neon c) {
        return vfmaq_laneq_f32(c.x, a.x, b, kLane);
    }
};

HW4_INLINE Neon operator+(Neon a, Neon b) { return vaddq_f32(a.x, b.x); }
HW4_INLINE Neon operator-(Neon a, Neon b) { return vsubq_f32(a.x, b.x); }
HW4_INLINE Neon operator*(Neon a, Neon b) { return vmulq_f32(a.x, b.x); }
HW4_INLINE Neon operator-(Neon a) { return vnegq_f32(a.x); }
HW4_INLINE Neon fused(Neon a, Neon b, Neon c) { return vfmaq_f32(c.x, a.x, b.x); }
HW4_INLINE Neon larger(Neon a, Neon b) { return vmaxq_f32(a.x, b.x); }
HW4_INLINE bool any_above(Neon a, Neon b) { return vmaxvq_u32(vcgtq_f32(a.x, b.x)) != 0; }
HW4_INLINE Neon add_exponent(Neon y, Neon t) {
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(y.x), vshlq_n_u32(vreinterpretq_u32_f32(t.x), 23)));
}

} // namespace

constexpr BlockKernel kF32Neon = Attention<Neon>::blocks([] { return true; });
constexpr BackwardKernel kF32NeonBackward = Backward<Neon>::steps(kF32Neon);

} // namespace hw4::cpu
