// Any processor: four rows at a time in plain C++, which the compiler may or may not turn into vectors.
#include "src/cpu/f32/attention_simd.h"
#include "src/cpu/f32/backward_simd.h"

namespace hw4::cpu {
namespace {

struct Generic {
    static constexpr int kWidth = 4;
    static constexpr int kRowVectors = 1;
    static constexpr int kColumns = 4;
    static constexpr size_t kAlign = 16;
    using Quad = const float*;

    float x[kWidth]; // not zeroed first: the compiler would not remove all of that

    Generic() = default;
    HW4_INLINE explicit Generic(float value) {
        for (float& lane : x) lane = value;
    }
    static HW4_INLINE Generic load(const float* from) {
        return each([&](int i) { return from[i]; });
    }
    HW4_INLINE void store(float* to) const {
        for (int i = 0; i < kWidth; ++i) to[i] = x[i];
    }
    static HW4_INLINE Quad quad(const float* from) { return from; }
    static HW4_INLINE void transpose4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
        for (int t = 0; t < 4; ++t)
            for (int row = 0; row < 4; ++row) to[t * to_stride + row] = from[row * from_stride + t];
    }
    template <int kLane>
    static HW4_INLINE Generic fused_lane(const Generic& a, Quad b, const Generic& c) {
        return each([&](int i) { return hw4::fused(a.x[i], b[kLane], c.x[i]); });
    }

    template <class Value>
    static HW4_INLINE Generic each(Value value) {
        Generic lanes; // NOLINT(cppcoreguidelines-pro-type-member-init): filled at once
        for (int i = 0; i < kWidth; ++i) lanes.x[i] = value(i);
        return lanes;
    }
};

HW4_INLINE Generic operator+(const Generic& a, const Generic& b) {
    return Generic::each([&](int i) { return a.x[i] + b.x[i]; });
}
HW4_INLINE Generic operator-(const Generic& a, const Generic& b) {
    return Generic::each([&](int i) { return a.x[i] - b.x[i]; });
}
HW4_INLINE Generic operator*(const Generic& a, const Generic& b) {
    return Generic::each([&](int i) { return a.x[i] * b.x[i]; });
}
HW4_INLINE Generic operator-(const Generic& a) {
    return Generic::each([&](int i) { return -a.x[i]; });
}
HW4_INLINE Generic fused(const Generic& a, const Generic& b, const Generic& c) {
    return Generic::each([&](int i) { return hw4::fused(a.x[i], b.x[i], c.x[i]); });
}
HW4_INLINE Generic larger(const Generic& a, const Generic& b) {
    return Generic::each([&](int i) { return hw4::larger(a.x[i], b.x[i]); });
}
HW4_INLINE Generic add_exponent(const Generic& y, const Generic& t) {
    return Generic::each([&](int i) { return hw4::add_exponent(y.x[i], t.x[i]); });
}
HW4_INLINE bool any_above(const Generic& a, const Generic& b) {
    bool any = false;
    for (int i = 0; i < Generic::kWidth; ++i) any = any || a.x[i] > b.x[i];
    return any;
}

} // namespace

constexpr BlockKernel kF32Generic = Attention<Generic>::blocks([] { return true; });
constexpr BackwardKernel kF32GenericBackward = Backward<Generic>::steps(kF32Generic);

} // namespace hw4::cpu
