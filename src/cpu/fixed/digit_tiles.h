// Tiles of K and V as digits for the products of attention_simd.h, packed once for all query rows.
#pragma once

#include <cstring>

#include "src/contracts/fixed/rules.h"
#include "src/cpu/block_kernel.h"

namespace hw4::cpu {

// V is a vector type of attention_simd.h.
template <class Rules, class V>
struct DigitTiles {
    using F = typename V::F;
    using I = typename V::I;
    static constexpr int kTileKeys = Rules::kTileKeys;
    static constexpr int kDigits = Rules::kDigits;
    static_assert(kDigits == V::kDigits);
    static constexpr auto kZeroWord = static_cast<int32_t>(Rules::Numbers::kBias);
    static constexpr int kMostColumns = static_cast<int>(fixed::kMostColumns);
    static constexpr int kWidth = V::kWidth;
    static constexpr int kColumns = V::kColumns;
    static constexpr int kDepth = V::kDepth;
    static constexpr int kKeysAtOnce = kDepth > kColumns ? kDepth : kColumns;
    static constexpr size_t kColumnBytes = static_cast<size_t>(kDigits) * V::kLaneBytes; // one column, one step
    static constexpr size_t kStepB = kColumnBytes * kColumns;
    static constexpr size_t kStartBytes = sizeof(int32_t) * kDigits * kColumns;
    static_assert(kTileKeys % kKeysAtOnce == 0 && kKeysAtOnce % kDepth == 0 && kKeysAtOnce % kColumns == 0);
    static_assert(kWidth % kColumns == 0 && kWidth % 4 == 0 && kTileKeys % kWidth == 0);

    static HW4_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
    static HW4_INLINE int64_t rounded_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }
    static HW4_INLINE int64_t steps(int64_t depth) { return (depth + kDepth - 1) / kDepth; }
    static HW4_INLINE int64_t tiles_of(int64_t keys) { return (keys + kTileKeys - 1) / kTileKeys; }

    // ---- A prepared batch: its tiles one after the other

    struct TileHead {
        int k_exponent;
        int v_exponent;
    };
    static constexpr size_t kLine = 64;

    struct TileLayout {
        size_t k_block; // bytes
        size_t v_block;
        size_t v; // where V begins
        size_t bytes;

        explicit TileLayout(int64_t dim)
            : k_block(kStartBytes + static_cast<size_t>(steps(dim)) * kStepB),
              v_block(kStartBytes + static_cast<size_t>(kTileKeys / kDepth) * kStepB),
              v(lines(kLine + kTileKeys / kColumns * k_block)),
              bytes(v + lines(static_cast<size_t>((dim + kColumns - 1) / kColumns) * v_block)) {}
        static size_t lines(size_t size) { return (size + kLine - 1) / kLine * kLine; }
    };

    static size_t prepared_bytes(int64_t keys, int64_t dim) {
        return static_cast<size_t>(tiles_of(keys)) * TileLayout(dim).bytes;
    }

    // ---- Numbers to words

    static HW4_INLINE float largest_of(const float* x, int64_t count) {
        constexpr int kChains = 16; // independent chains, in vectors
        uint32_t largest[kChains] = {};
        const auto take = [&](int chain, uint32_t bits) {
            const uint32_t magnitude = bits & 0x7fffffffu;
            largest[chain] = magnitude > largest[chain] ? magnitude : largest[chain];
        };
        int64_t i = 0;
        for (; i + kChains <= count; i += kChains)
            for (int chain = 0; chain < kChains; ++chain) take(chain, bits_of(x[i + chain]));
        for (; i < count; ++i) take(0, bits_of(x[i]));
        for (int chain = 1; chain < kChains; ++chain) take(0, largest[chain]);
        return float_of(largest[0]);
    }

    // One row of numbers, padded with zeros up to `padded`.
    static HW4_INLINE void to_words(const float* x, int64_t count, int64_t padded, fixed::Factors scale,
                                    int32_t* words) {
        const F first(scale.first);
        const F second(scale.second);
        int64_t i = 0;
        for (; i + kWidth <= count; i += kWidth)
            (nearest(F::load_anywhere(x + i) * first * second) + I(kZeroWord)).store(words + i);
        if (i < count) {
            float last[kWidth] = {};
            alignas(64) int32_t last_words[kWidth];
            for (int64_t lane = 0; i + lane < count; ++lane) last[lane] = x[i + lane];
            (nearest(F::load_anywhere(last) * first * second) + I(kZeroWord)).store(last_words);
            for (int64_t lane = 0; i < count; ++i, ++lane) words[i] = last_words[lane];
        }
        for (; i < padded; ++i) words[i] = kZeroWord;
    }

    static HW4_INLINE void zero_words(int32_t* words, int64_t count) {
        for (int64_t i = 0; i < count; ++i) words[i] = kZeroWord;
    }

    // Words of kWidth rows, by row, and then by column with a lane for each row.
    struct Transposed {
        alignas(64) int32_t rows[kWidth][kMostColumns];
        alignas(64) int32_t columns[kMostColumns][kWidth];

        HW4_INLINE void transpose(int64_t padded) {
            for (int row = 0; row < kWidth; row += 4)
                for (int64_t t = 0; t < padded; t += 4)
                    V::transpose4(rows[row] + t, kMostColumns, columns[t] + row, kWidth);
        }
    };
    static constexpr int64_t kWordPad = kDepth > 4 ? kDepth : 4; // a multiple of what transpose4 and the steps take

    // ---- Packing b

    // Sums by digit, highest first.
    struct DigitSums {
        I of[kDigits];

        HW4_INLINE DigitSums() {
            for (I& sum : of) sum = I(0);
        }
        HW4_INLINE void add(I word) {
            of[0] = of[0] + word.template shifted_right<8 * (kDigits - 1)>() - I(128);
            if constexpr (kDigits == 3) of[1] = of[1] + (word.template shifted_right<8>() & I(255)) - I(128);
            of[kDigits - 1] = of[kDigits - 1] + (word & I(255)) - I(128);
        }
    };

    static constexpr bool has_offset(const int (&offset)[3]) {
        return offset[0] != 0 || offset[1] != 0 || offset[2] != 0;
    }

    // kDepth rows of kWidth lanes to a step of kWidth / kColumns blocks, at most `blocks` of them.
    static HW4_INLINE void pack_step(const int32_t* words, int64_t stride, uint8_t* to, size_t block_bytes,
                                     int64_t blocks) {
        I w[kDepth];
        for (int i = 0; i < kDepth; ++i) w[i] = I::load(words + i * stride);
        if constexpr (kWidth == kColumns) return V::pack_b(w, to, static_cast<size_t>(kColumns) * V::kLaneBytes);
        constexpr size_t digit_bytes = static_cast<size_t>(kWidth) * V::kLaneBytes;
        constexpr size_t piece = static_cast<size_t>(kColumns) * V::kLaneBytes;
        alignas(64) uint8_t packed[kDigits * digit_bytes];
        V::pack_b(w, packed, digit_bytes);
        for (int64_t block = 0; block < least(blocks, kWidth / kColumns); ++block)
            for (size_t digit = 0; digit < kDigits; ++digit)
                std::memcpy(to + static_cast<size_t>(block) * block_bytes + digit * piece,
                            packed + digit * digit_bytes + static_cast<size_t>(block) * piece, piece);
    }

    static HW4_INLINE void store_start(const DigitSums& sums, const int (&offset)[3], uint8_t* to, size_t block_bytes,
                                       int64_t blocks) {
        alignas(64) int32_t digit[kDigits][kWidth];
        for (int i = 0; i < kDigits; ++i) sums.of[i].store(digit[i]);
        for (int64_t lane = 0; lane < least(blocks * kColumns, kWidth); ++lane) {
            int32_t start[kDigits] = {};
            for (int i = 0; i < kDigits; ++i)
                for (int other = 0; i + other < kDigits; ++other) start[i + other] -= offset[i] * digit[other][lane];
            uint8_t* block = to + static_cast<size_t>(lane / kColumns) * block_bytes;
            for (int64_t i = 0; i < kDigits; ++i)
                std::memcpy(block + sizeof(int32_t) * static_cast<size_t>(i * kColumns + lane % kColumns), &start[i],
                            sizeof(int32_t));
        }
    }

    // Keys that do not exist are copies of the last key, which does not change the largest score.
    static HW4_INLINE void prepare_keys(const float* k, int64_t keys, int64_t dim, int exponent,
                                        const TileLayout& layout, uint8_t* to) {
        const fixed::Factors scale = fixed::tile_factors(exponent);
        const int64_t padded = rounded_up(dim, kWordPad);
        Transposed words; // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
        for (int64_t j = 0; j < rounded_up(keys, kKeysAtOnce); j += kWidth) {
            for (int64_t row = 0; row < kWidth; ++row)
                to_words(k + least(j + row, keys - 1) * dim, dim, padded, scale, words.rows[row]);
            words.transpose(padded);
            uint8_t* const blocks = to + static_cast<size_t>(j / kColumns) * layout.k_block;
            DigitSums sums;
            if (has_offset(V::kQueryOffset))
                for (int64_t t = 0; t < dim; ++t) sums.add(I::load(words.columns[t]));
            store_start(sums, V::kQueryOffset, blocks, layout.k_block, kWidth / kColumns);
            for (int64_t step = 0; step < steps(dim); ++step)
                pack_step(words.columns[step * kDepth], kWidth,
                          blocks + kStartBytes + static_cast<size_t>(step) * kStepB, layout.k_block, kWidth / kColumns);
        }
    }

    static HW4_INLINE void prepare_values(const float* v, int64_t keys, int64_t dim, int exponent,
                                          const TileLayout& layout, uint8_t* to) {
        const fixed::Factors scale = fixed::tile_factors(exponent);
        const int64_t padded = rounded_up(dim, kWidth);
        const int64_t blocks = (dim + kColumns - 1) / kColumns;
        alignas(64) int32_t words[kDepth][kMostColumns];
        DigitSums sums[kMostColumns / kWidth];
        for (int64_t step = 0; step < steps(keys); ++step) {
            for (int64_t i = 0; i < kDepth; ++i) {
                const int64_t key = step * kDepth + i;
                if (key < keys)
                    to_words(v + key * dim, dim, padded, scale, words[i]);
                else
                    zero_words(words[i], padded);
            }
            for (int64_t x = 0; x < padded; x += kWidth) {
                if (has_offset(V::kWeightOffset))
                    for (int i = 0; i < kDepth; ++i) sums[x / kWidth].add(I::load(words[i] + x));
                const int64_t block = x / kColumns;
                pack_step(words[0] + x, kMostColumns,
                          to + static_cast<size_t>(block) * layout.v_block + kStartBytes +
                              static_cast<size_t>(step) * kStepB,
                          layout.v_block, blocks - block);
            }
        }
        for (int64_t x = 0; x < padded; x += kWidth)
            store_start(sums[x / kWidth], V::kWeightOffset, to + static_cast<size_t>(x / kColumns) * layout.v_block,
                        layout.v_block, blocks - x / kColumns);
    }

    static void prepare(const KeyTiles& tiles, void* prepared) {
        const TileLayout layout(tiles.dim);
        for (int64_t tile = tiles.first; tile < tiles.end; ++tile) {
            auto* const to = static_cast<uint8_t*>(prepared) + static_cast<size_t>(tile) * layout.bytes;
            const int64_t keys = least(kTileKeys, tiles.keys - tile * kTileKeys);
            const int64_t first = tile * kTileKeys * tiles.dim;
            const int64_t count = keys * tiles.dim;
            float room[kTileKeys * kMostColumns];
            TileHead head{};
            const float* const k = as_floats(tiles.element, tiles.k, first, count, room);
            head.k_exponent = fixed::exponent_of_tile<kDigits>(largest_of(k, count));
            prepare_keys(k, keys, tiles.dim, head.k_exponent, layout, to + kLine);
            const float* const v = as_floats(tiles.element, tiles.v, first, count, room);
            head.v_exponent = fixed::exponent_of_tile<kDigits>(largest_of(v, count));
            prepare_values(v, keys, tiles.dim, head.v_exponent, layout, to + layout.v);
            std::memcpy(to, &head, sizeof head);
        }
    }

    static HW4_INLINE TileHead head_of(const uint8_t* tile) {
        TileHead head{};
        std::memcpy(&head, tile, sizeof head);
        return head;
    }
};

} // namespace hw4::cpu
