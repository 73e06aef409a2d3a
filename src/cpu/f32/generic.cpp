// Any processor: four rows at a time.
#include "src/cpu/f32/attention_simd.h"
#include "src/cpu/f32/backward_simd.h"
#include "src/cpu/lanes.h"

namespace hw4::cpu {
namespace {

struct Generic : Floats {
    static constexpr int kRowVectors = 1;
    static constexpr int kColumns = 4;
    static constexpr size_t kAlign = 16;
    using Quad = const float*;

    using Floats::Floats;
    HW4_INLINE Generic(Floats lanes) : Floats(lanes) {}
    static HW4_INLINE Generic load(const float* from) { return Floats::load(from); }
    static HW4_INLINE Quad quad(const float* from) { return from; }
    template <int kLane>
    static HW4_INLINE Generic fused_lane(Generic a, Quad b, Generic c) {
        return fused(a, Floats(b[kLane]), c);
    }
};

} // namespace

constexpr BlockKernel kF32Generic = Attention<Generic>::blocks([] { return true; });
constexpr BackwardKernel kF32GenericBackward = Backward<Generic>::steps(kF32Generic);

} // namespace hw4::cpu
