// 512-bit vectors. 3 x 8 accumulators, 3 inputs, broadcasts from memory: 27 of 32 registers. Only this file is compiled
// with -mavx512f.
#include "src/cpu/f32/attention_simd.h"
#include "src/cpu/f32/backward_simd.h"
#include "src/cpu/x86_intrinsics.h"

namespace hw4::cpu {
namespace {

struct Avx512 {
    static constexpr int kWidth = 16;
    static constexpr int kRowVectors = 3;
    static constexpr int kColumns = 8;
    static constexpr size_t kAlign = 64;
    using Quad = const float*; // a broadcast from memory is part of the multiply-add

    __m512 x;

    Avx512() = default;
    HW4_INLINE Avx512(__m512 value) : x(value) {}
    HW4_INLINE explicit Avx512(float value) : x(_mm512_set1_ps(value)) {}
    static HW4_INLINE Avx512 load(const float* from) { return _mm512_load_ps(from); }
    HW4_INLINE void store(float* to) const { _mm512_store_ps(to, x); }
    static HW4_INLINE Quad quad(const float* from) { return from; }
    static HW4_INLINE void transpose4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
        transpose4_words(from, from_stride, to, to_stride);
    }
    template <int kLane>
    static HW4_INLINE Avx512 fused_lane(Avx512 a, Quad b, Avx512 c) {
        return _mm512_fmadd_ps(a.x, _mm512_set1_ps(b[kLane]), c.x);
    }
};

HW4_INLINE Avx512 operator+(Avx512 a, Avx512 b) { return _mm512_add_ps(a.x, b.x); }
HW4_INLINE Avx512 operator-(Avx512 a, Avx512 b) { return _mm512_sub_ps(a.x, b.x); }
HW4_INLINE Avx512 operator*(Avx512 a, Avx512 b) { return _mm512_mul_ps(a.x, b.x); }
HW4_INLINE Avx512 operator-(Avx512 a) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a.x), _mm512_set1_epi32(INT32_MIN)));
}
HW4_INLINE Avx512 fused(Avx512 a, Avx512 b, Avx512 c) { return _mm512_fmadd_ps(a.x, b.x, c.x); }
HW4_INLINE Avx512 larger(Avx512 a, Avx512 b) { return _mm512_max_ps(a.x, b.x); }
HW4_INLINE bool any_above(Avx512 a, Avx512 b) { return _mm512_cmp_ps_mask(a.x, b.x, _CMP_GT_OQ) != 0; }
HW4_INLINE Avx512 add_exponent(Avx512 y, Avx512 t) {
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(y.x), _mm512_slli_epi32(_mm512_castps_si512(t.x), 23)));
}

bool supported() { return __builtin_cpu_supports("avx512f"); }

} // namespace

constexpr BlockKernel kF32Avx512 = Attention<Avx512>::blocks(supported);
constexpr BackwardKernel kF32Avx512Backward = Backward<Avx512>::steps(kF32Avx512);

} // namespace hw4::cpu
