// 256-bit vectors with fused multiply-add (Haswell and later). 3 x 4 accumulators, 3 + 1 inputs: all 16 registers. Only
// this file is compiled with -mavx2 -mfma.
#include "src/cpu/f32/attention_simd.h"
#include "src/cpu/f32/backward_simd.h"
#include "src/cpu/fixed/avx.h"

namespace hw4::cpu {

HW4_INLINE AvxFloats operator-(AvxFloats a) { return _mm256_xor_ps(a.x, _mm256_set1_ps(-0.0f)); }
HW4_INLINE AvxFloats add_exponent(AvxFloats y, AvxFloats t) {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(y.x), _mm256_slli_epi32(_mm256_castps_si256(t.x), 23)));
}

namespace {

struct Avx2 : AvxFloats, X86Words {
    static constexpr int kWidth = 8;
    static constexpr int kRowVectors = 3;
    static constexpr int kColumns = 4;
    static constexpr size_t kAlign = 32;
    using Quad = const float*; // a broadcast from memory costs no more than a load

    using AvxFloats::AvxFloats;
    HW4_INLINE Avx2(AvxFloats floats) : AvxFloats(floats) {}
    static HW4_INLINE Avx2 load(const float* from) { return AvxFloats::load(from); }
    static HW4_INLINE Quad quad(const float* from) { return from; }
    template <int kLane>
    static HW4_INLINE Avx2 fused_lane(Avx2 a, Quad b, Avx2 c) {
        return _mm256_fmadd_ps(a.x, _mm256_broadcast_ss(b + kLane), c.x);
    }
};

bool supported() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

} // namespace

constexpr BlockKernel kF32Avx2 = Attention<Avx2>::blocks(supported);
constexpr BackwardKernel kF32Avx2Backward = Backward<Avx2>::steps(kF32Avx2);

} // namespace hw4::cpu
