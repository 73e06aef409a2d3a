// Matrix products of 16 x 64 with 64 x 16 bytes (AMX-INT8: Sapphire Rapids and later). Only this file is compiled with
// -mavx512f -mavx512bw -mamx-tile -mamx-int8.
//
// A tile of the result has a key or column in each of its 16 rows, and a lane for each of 16 query rows. Both inputs
// are signed, except weights. Two vectors of rows share a tile of keys. The eight tiles with three digits: twice three
// of sums, one of keys, one of rows; with two digits: twice two of sums, and four of keys and rows.
#include "src/cpu/amx_tiles.h"
#include "src/cpu/fixed/attention_simd.h"
#include "src/cpu/fixed/avx512.h"

namespace hw4::cpu {
namespace {

// Tiles can only be named by literals. Digits of keys or values are the first operand.
// NOLINTNEXTLINE(cppcoreguidelines-macro-usage)
#define HW4_AMX_ADD(sums, columns, rows)                                                                               \
    do {                                                                                                               \
        if constexpr (kUnsignedRows)                                                                                   \
            _tile_dpbsud(sums, columns, rows);                                                                         \
        else                                                                                                           \
            _tile_dpbssd(sums, columns, rows);                                                                         \
    } while (false)

template <int kDigitCount>
struct Amx : Avx512Machine {
    using Session = TileSession;
    static constexpr int kDigits = kDigitCount;
    static constexpr int kRowVectors = 2;
    static constexpr int kColumns = 16;
    static constexpr int kDepth = 64;
    static constexpr int kWeightsAtOnce = 4;
    static constexpr bool kFinishesLate = true;
    static constexpr int kLaneBytes = 64;
    static constexpr int64_t kTileBytes = int64_t{16} * 64;
    static constexpr int kQueryOffset[3] = {0, 0, 0};
    static constexpr int kWeightOffset[3] = {0, 0, 0};

    // [four places of the depth][row][place]
    static HW4_INLINE void pack_a(const Avx512Ints* w, uint8_t* to, size_t digit_bytes) {
        const __m512i sign = _mm512_set1_epi32(static_cast<int32_t>(0x80808080u));
        for (size_t four = 0; four < kDepth / 4; ++four) {
            __m512i digit[kDigits];
            bytes_of_four(w + 4 * four, digit);
            for (size_t i = 0; i < kDigits; ++i)
                _mm512_store_si512(to + i * digit_bytes + 64 * four, _mm512_xor_si512(digit[i], sign));
        }
    }
    static HW4_INLINE void pack_weights(const Avx512Ints* w, uint8_t* to, size_t digit_bytes) {
        __m512i digit[kDigits];
        bytes_of_four(w, digit);
        for (size_t i = 0; i < kDigits; ++i) _mm512_store_si512(to + i * digit_bytes, digit[i]);
    }
    // [column][place of the depth]
    static HW4_INLINE void pack_b(const Avx512Ints* w, uint8_t* to, size_t digit_bytes) {
        alignas(64) int32_t fours[kDigits][16][16]; // [four places][column]
        pack_a(w, reinterpret_cast<uint8_t*>(fours), sizeof fours[0]);
        for (size_t i = 0; i < kDigits; ++i) {
            auto* const columns = reinterpret_cast<int32_t*>(to + i * digit_bytes);
            for (int64_t four = 0; four < 16; four += 4)
                for (int64_t x = 0; x < 16; x += 4)
                    transpose4(&fours[i][four][x], int64_t{16}, columns + x * 16 + four, int64_t{16});
        }
    }

    // close() stores the sums of a panel, finish() reads them; the next panel may begin in between.
    template <bool kUnsignedRows>
    struct Panel {
        alignas(64) int32_t l[kRowVectors * kDigits][16][16];

        HW4_INLINE void start(const uint8_t*) {
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            if constexpr (kDigits == 3) {
                _tile_zero(4);
                _tile_zero(5);
            }
        }

        // The latency of a sum is longer than that of the next product's start, so products of one sum are kept apart.
        // Sums of the first vector of rows come first, and of the highest digits first.
        // NOLINTNEXTLINE(readability-function-cognitive-complexity): the macro's
        HW4_INLINE void step(const uint8_t* a, const uint8_t* b) {
            keep_order();
            if constexpr (kDigits == 3) {
                _tile_loadd(6, b, 64);
                _tile_loadd(7, a + 4 * kTileBytes, 64);
                HW4_AMX_ADD(2, 6, 7);
                _tile_loadd(7, a + 5 * kTileBytes, 64);
                HW4_AMX_ADD(5, 6, 7);
                _tile_loadd(7, a, 64);
                HW4_AMX_ADD(0, 6, 7);
                _tile_loadd(7, a + kTileBytes, 64);
                HW4_AMX_ADD(3, 6, 7);
                _tile_loadd(7, a + 3 * kTileBytes, 64);
                HW4_AMX_ADD(4, 6, 7);
                _tile_loadd(7, a + 2 * kTileBytes, 64);
                HW4_AMX_ADD(1, 6, 7);
                _tile_loadd(6, b + kTileBytes, 64);
                HW4_AMX_ADD(2, 6, 7);
                _tile_loadd(7, a + 3 * kTileBytes, 64);
                HW4_AMX_ADD(5, 6, 7);
                _tile_loadd(7, a + kTileBytes, 64);
                HW4_AMX_ADD(4, 6, 7);
                _tile_loadd(7, a, 64);
                HW4_AMX_ADD(1, 6, 7);
                _tile_loadd(6, b + 2 * kTileBytes, 64);
                HW4_AMX_ADD(2, 6, 7);
                _tile_loadd(7, a + kTileBytes, 64);
                HW4_AMX_ADD(5, 6, 7);
            } else {
                _tile_loadd(5, b + kTileBytes, 64);
                _tile_loadd(6, a, 64);
                HW4_AMX_ADD(1, 5, 6);
                _tile_loadd(7, a + kTileBytes, 64);
                HW4_AMX_ADD(3, 5, 7);
                _tile_loadd(4, b, 64);
                HW4_AMX_ADD(0, 4, 6);
                _tile_loadd(6, a + 2 * kTileBytes, 64);
                HW4_AMX_ADD(1, 4, 6);
                _tile_loadd(5, a + 3 * kTileBytes, 64);
                HW4_AMX_ADD(3, 4, 5);
                HW4_AMX_ADD(2, 4, 7);
            }
        }

        HW4_INLINE void close() {
            _tile_stored(0, l[0], 64);
            _tile_stored(1, l[1], 64);
            _tile_stored(2, l[2], 64);
            _tile_stored(3, l[3], 64);
            if constexpr (kDigits == 3) {
                _tile_stored(4, l[4], 64);
                _tile_stored(5, l[5], 64);
            }
            keep_order();
        }

        template <class End>
        HW4_INLINE void finish(End end) const {
            for (int x = 0; x < kColumns; ++x)
#pragma GCC unroll 2
                for (int r = 0; r < kRowVectors; ++r) {
                    const auto sum = [&](int i) { return Avx512Ints::load(l[r * kDigits + i][x]); };
                    const Avx512Ints low = sum(kDigits - 1).template shifted_right<8>();
                    if constexpr (kDigits == 2)
                        end(x, r, sum(0) + low);
                    else
                        end(x, r, sum(0).template shifted_left<8>() + sum(1) + low);
                }
        }
    };
    using Sums = Panel<false>;
    using ValueSums = Panel<true>;
};

#undef HW4_AMX_ADD

bool supported() {
    static const bool all =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && has_tiles(kTilesOfBytes);
    return all;
}

} // namespace

constexpr BlockKernel kFixedAmx = FixedAttention<FixedRules, Amx<3>>::blocks(supported);
constexpr BlockKernel kFixed16Amx = FixedAttention<Fixed16Rules, Amx<2>>::blocks(supported);

} // namespace hw4::cpu
