// Matrix products of 16 x 32 with 32 x 16 bf16 numbers (AMX-BF16: Sapphire Rapids and later). Only this file is
// compiled with -mavx512f -mamx-tile -mamx-bf16.
//
// A tile of the result has a key or column in each of its 16 rows, and a lane for each of 16 query rows. The eight
// tiles: four of sums, two of columns and two of rows.
#include "src/cpu/amx_tiles.h"
#include "src/cpu/fixed/avx512.h"
#include "src/cpu/half/attention_tiles.h"

namespace hw4::cpu {

HW4_INLINE Avx512Floats operator/(Avx512Floats a, Avx512Floats b) { return _mm512_div_ps(a.x, b.x); }
HW4_INLINE Avx512Floats add_exponent_above(Avx512Floats least, Avx512Floats x, Avx512Floats y, Avx512Floats t) {
    const __mmask16 above = _mm512_cmp_ps_mask(x.x, least.x, _CMP_GT_OQ);
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(t.x), 23);
    return _mm512_castsi512_ps(_mm512_maskz_add_epi32(above, _mm512_castps_si512(y.x), exponent));
}

namespace {

struct AmxBf16 : Avx512Machine {
    using Session = TileSession;

    // 16 bf16 numbers as floats.
    static HW4_INLINE Avx512Floats widened(const uint16_t* from) {
        const __m256i numbers = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16));
    }

    // Both rounded to nearest, halves away from zero, `low` in the lower half of each word.
    static HW4_INLINE Avx512Ints pair(Avx512Floats low, Avx512Floats high) {
        const __m512i half = _mm512_set1_epi32(0x8000);
        const __m512i lower = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(low.x), half), 16);
        const __m512i upper = _mm512_add_epi32(_mm512_castps_si512(high.x), half);
        return select(_mm512_set1_epi32(0xffff), lower, upper);
    }

    // 32 columns, in two blocks that are `block` apart, times 32 rows; c is [column][row].
    template <bool kAdds>
    static HW4_INLINE void products(const uint16_t* columns, int64_t block, const uint16_t* rows, int64_t steps,
                                    float* c) {
        constexpr int64_t kTile = int64_t{16} * 32; // numbers, in rows of 64 bytes
        constexpr int64_t kSumsRow = 128;           // bytes
        // Named variables, since some compilers' macros cast only the first token of their argument.
        float* const c01 = c + 16;
        float* const c10 = c + kTile;
        float* const c11 = c10 + 16;
        keep_order();
        if constexpr (kAdds) {
            _tile_loadd(0, c, kSumsRow);
            _tile_loadd(1, c01, kSumsRow);
            _tile_loadd(2, c10, kSumsRow);
            _tile_loadd(3, c11, kSumsRow);
        } else {
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
        }
        for (int64_t step = 0; step < steps; ++step, columns += kTile, rows += 2 * kTile) {
            const uint16_t* const next_columns = columns + block;
            const uint16_t* const next_rows = rows + kTile;
            _tile_loadd(4, columns, 64);
            _tile_loadd(6, rows, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, next_rows, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, next_columns, 64);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, c, kSumsRow);
        _tile_stored(1, c01, kSumsRow);
        _tile_stored(2, c10, kSumsRow);
        _tile_stored(3, c11, kSumsRow);
        keep_order();
    }
};

bool supported() {
    static const bool all = __builtin_cpu_supports("avx512f") && has_tiles(kTilesOfBf16);
    return all;
}

} // namespace

constexpr BlockKernel kBf16Amx = TileAttention<AmxBf16>::blocks(supported);

} // namespace hw4::cpu
