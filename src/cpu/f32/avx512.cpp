// 512-bit vectors. 3 x 8 accumulators, 3 inputs, broadcasts from memory: 27 of 32 registers. Only this file is compiled
// with -mavx512f.
#include "src/cpu/fixed/avx512.h"
#include "src/cpu/f32/attention_simd.h"
#include "src/cpu/f32/backward_simd.h"

namespace hw4::cpu {

HW4_INLINE Avx512Floats operator-(Avx512Floats a) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a.x), _mm512_set1_epi32(INT32_MIN)));
}
HW4_INLINE Avx512Floats add_exponent(Avx512Floats y, Avx512Floats t) {
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(y.x), _mm512_slli_epi32(_mm512_castps_si512(t.x), 23)));
}

namespace {

struct Avx512 : Avx512Floats, X86Words {
    static constexpr int kWidth = 16;
    static constexpr int kRowVectors = 3;
    static constexpr int kColumns = 8;
    static constexpr size_t kAlign = 64;
    using Quad = const float*; // a broadcast from memory is part of the multiply-add

    using Avx512Floats::Avx512Floats;
    HW4_INLINE Avx512(Avx512Floats floats) : Avx512Floats(floats) {}
    static HW4_INLINE Avx512 load(const float* from) { return Avx512Floats::load(from); }
    static HW4_INLINE Quad quad(const float* from) { return from; }
    template <int kLane>
    static HW4_INLINE Avx512 fused_lane(Avx512 a, Quad b, Avx512 c) {
        return fused(a, Avx512Floats(b[kLane]), c);
    }
};

bool supported() { return __builtin_cpu_supports("avx512f"); }

} // namespace

constexpr BlockKernel kF32Avx512 = Attention<Avx512>::blocks(supported);
constexpr BackwardKernel kF32Avx512Backward = Backward<Avx512>::steps(kF32Avx512);

} // namespace hw4::cpu
