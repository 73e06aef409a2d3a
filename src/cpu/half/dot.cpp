// 512-bit dot products of two bf16 numbers (AVX512-BF16: Cooper Lake, Sapphire Rapids and later, Zen 4). 2 x 8
// accumulators, 2 operands, broadcasts from memory. This file alone is built with -mavx512f -mavx512bf16.
#include <cstring>

#include "src/cpu/half/attention_tiles.h"
#include "src/cpu/half/avx512.h"

namespace hw4::cpu {
namespace {

struct DotBf16 : Avx512Bf16Machine {
    static constexpr int64_t kAtOnce = 8;              // columns
    static constexpr int64_t kTile = int64_t{16} * 32; // numbers

    // All lanes the two numbers of a column.
    static HW4_INLINE __m512i column(const uint16_t* from) {
        int32_t word = 0;
        std::memcpy(&word, from, sizeof word);
        return _mm512_set1_epi32(word);
    }

    // 32 columns, in two blocks that are `block` apart, times 32 rows; c is [column][row].
    template <bool kAdds>
    static HW4_INLINE void products(const uint16_t* columns, int64_t block, const uint16_t* rows, int64_t steps,
                                    float* c) {
        for (int64_t x = 0; x < 32; x += kAtOnce)
            some<kAdds>(columns + x / 16 * block + x % 16 * 32, rows, steps, c + x * 32);
    }

    template <bool kAdds>
    static HW4_INLINE void some(const uint16_t* columns, const uint16_t* rows, int64_t steps, float* c) {
        __m512 sums[kAtOnce][2];
#pragma GCC unroll 8
        for (int64_t x = 0; x < kAtOnce; ++x)
#pragma GCC unroll 2
            for (int64_t r = 0; r < 2; ++r)
                sums[x][r] = kAdds ? _mm512_load_ps(c + x * 32 + r * 16) : _mm512_setzero_ps();
        for (int64_t step = 0; step < steps; ++step, columns += kTile, rows += 2 * kTile)
            for (int64_t pair = 0; pair < 16; ++pair) {
                const auto a = [&](int64_t r) {
                    return reinterpret_cast<__m512bh>(_mm512_load_si512(rows + r * kTile + pair * 32));
                };
                const __m512bh first = a(0);
                const __m512bh second = a(1);
#pragma GCC unroll 8
                for (int64_t x = 0; x < kAtOnce; ++x) {
                    const auto b = reinterpret_cast<__m512bh>(column(columns + x * 32 + pair * 2));
                    sums[x][0] = _mm512_dpbf16_ps(sums[x][0], first, b);
                    sums[x][1] = _mm512_dpbf16_ps(sums[x][1], second, b);
                }
            }
#pragma GCC unroll 8
        for (int64_t x = 0; x < kAtOnce; ++x)
#pragma GCC unroll 2
            for (int64_t r = 0; r < 2; ++r) _mm512_store_ps(c + x * 32 + r * 16, sums[x][r]);
    }
};

bool supported() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16"); }

} // namespace

const BlockKernel& bf16_dot_blocks() {
    static constexpr BlockKernel blocks = TileAttention<DotBf16>::blocks(supported);
    return blocks;
}

} // namespace hw4::cpu
