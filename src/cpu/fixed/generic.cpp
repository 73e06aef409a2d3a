// Any processor: four rows at a time. The digits are floats: all sums of products are integers below 2^24, for up to
// 256 columns of digits from -128 to 127, and for 64 keys, or 128 with two digits, where P's go up to 255. So floats
// hold them exactly, in any order, fused or not.
#include "src/contracts/fma_clones.h"
#include "src/cpu/fixed/attention_simd.h"
#include "src/cpu/lanes.h"

namespace hw4::cpu {

HW4_INLINE Ints nearest(Floats a) {
    Ints whole; // NOLINT(cppcoreguidelines-pro-type-member-init): filled at once
    for (int i = 0; i < Ints::kWidth; ++i) whole.x[i] = fixed::nearest(a.x[i]);
    return whole;
}
HW4_INLINE Floats with_fraction_of(Ints bits) { return Floats::Vector((bits.words() & 0x7fffffu) | 0x3f800000u); }
HW4_INLINE Floats with_exponent_of(Ints bits) { return Floats::Vector(bits.words() & 0xff800000u); }

namespace {

template <int kDigitCount>
struct Generic {
    using F = Floats;
    using I = Ints;
    struct Session {};
    static constexpr int kWidth = Ints::kWidth;
    static constexpr int kDigits = kDigitCount;
    static constexpr int kRowVectors = 1;
    static constexpr int kColumns = 4;
    static constexpr int kDepth = 1;
    static constexpr int kWeightsAtOnce = kDepth;
    static constexpr bool kFinishesLate = false;
    static constexpr int kLaneBytes = sizeof(float);
    static constexpr int kQueryOffset[3] = {0, 0, 0};
    static constexpr int kWeightOffset[3] = {0, 0, 0};

    template <class T>
    static HW4_INLINE void transpose4(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
        Ints::transpose4(from, from_stride, to, to_stride);
    }
    static constexpr bool kExp2BySegments = false;
    static HW4_INLINE Ints gathered(const uint32_t* table, Ints at) {
        for (int i = 0; i < kWidth; ++i) at.x[i] = static_cast<int32_t>(table[at.x[i]]);
        return at;
    }

    // The bytes of a word, highest first, less an offset.
    static HW4_INLINE void pack(Ints word, int32_t offset, uint8_t* to, size_t digit_bytes) {
        for (int i = 0; i < kDigits; ++i, to += digit_bytes)
            to_float((word.shifted_right(Ints(8 * (kDigits - 1 - i))) & Ints(255)) - Ints(offset))
                .store(reinterpret_cast<float*>(to));
    }
    static HW4_INLINE void pack_a(const Ints* w, uint8_t* to, size_t digit_bytes) { pack(*w, 128, to, digit_bytes); }
    static HW4_INLINE void pack_b(const Ints* w, uint8_t* to, size_t digit_bytes) { pack(*w, 128, to, digit_bytes); }
    static HW4_INLINE void pack_weights(const Ints* w, uint8_t* to, size_t digit_bytes) {
        pack(*w, 0, to, digit_bytes);
    }

    struct Sums {
        Floats l[kDigits][kColumns];

        // Both offsets are zero.
        HW4_INLINE void start(const uint8_t*) {
#pragma GCC unroll 3
            for (int i = 0; i < kDigits; ++i)
#pragma GCC unroll 4
                for (int x = 0; x < kColumns; ++x) l[i][x] = Floats(0.0f);
        }
        HW4_INLINE void step(const uint8_t* a, const uint8_t* b) {
            const auto* const rows = reinterpret_cast<const float*>(a);
            const auto* const columns = reinterpret_cast<const float*>(b);
#pragma GCC unroll 3
            for (int i = 0; i < kDigits; ++i) {
                const Floats digit = Floats::load(rows + i * kWidth);
#pragma GCC unroll 3
                for (int j = 0; i + j < kDigits; ++j)
#pragma GCC unroll 4
                    for (int x = 0; x < kColumns; ++x)
                        l[i + j][x] = l[i + j][x] + digit * Floats(columns[j * kColumns + x]);
            }
        }
        template <class End>
        HW4_INLINE void finish(End end) const {
            const auto whole = [&](int i, int x) { return Ints(__builtin_convertvector(l[i][x].x, Ints::Vector)); };
#pragma GCC unroll 4
            for (int x = 0; x < kColumns; ++x) {
                const Ints low = whole(kDigits - 1, x).template shifted_right<8>();
                if constexpr (kDigits == 2)
                    end(x, 0, whole(0, x) + low);
                else
                    end(x, 0, whole(0, x).template shifted_left<8>() + whole(1, x) + low);
            }
        }
    };
    using ValueSums = Sums;
};

// The work of a block, with all that it calls.
template <class Attention>
struct Cloned {
    static HW4_FMA_CLONES __attribute__((flatten)) void attend(const RowBlock& block, float* workspace) {
        Attention::attend(block, workspace);
    }
    static constexpr BlockKernel blocks() {
        BlockKernel kernel = Attention::blocks([] { return true; });
        kernel.attend = [](const RowBlock& block, float* workspace) { attend(block, workspace); };
        return kernel;
    }
};

} // namespace

constexpr BlockKernel kFixedGeneric = Cloned<FixedAttention<FixedRules, Generic<3>>>::blocks();
constexpr BlockKernel kFixed16Generic = Cloned<FixedAttention<Fixed16Rules, Generic<2>>>::blocks();

} // namespace hw4::cpu
