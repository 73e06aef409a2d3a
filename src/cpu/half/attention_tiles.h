// Attention of the contract "bf16" for a block of query rows, over products of tiles of bf16 numbers.
//
// As in the other kernels the vector axis is the ROWS: a lane carries one query row, without horizontal operations.
// Both products have one form,
//
//     c[column][row] = sum, over depth, of columns[column][depth] * rows[depth][row]
//
// scores:  rows = Q, columns = a tile of K, column = key,     depth = t
// output:  rows = P, columns = a tile of V, column = feature, depth = key
//
// in steps of kDepth places: columns are [block of 16][step][column][place], rows are [step][vector of 16][pair of
// places][row][place of the pair], as the matrix unit and, pair by pair, the vector unit take them. Others are zero.
//
// The instructions replace denormals by zeros, in inputs and results. How numbers avoid that:
//   V        is packed times 2^64: then its least number is normal, and so is any part of it that O could show. The
//            largest sum, at most 2^52 of values (the contract's domain) times 2^64, is finite.
//   Q and K  are packed unscaled. A denormal number changes no score by more than 2^-62 of a column, unless the number
//            that it is multiplied with is 2^64 or more. So scores of a row or key with such a number are not taken
//            from the product: they are chains in float32.
//   scores   below 2^-126 change no exponent, with any value.
//
// A row's bytes depend only on its query and the keys that it sees: tiles of keys begin at multiples of their size and
// go from the last to the first as on the GPU (and in FlashAttention-2, so that weights are rounded at the same largest
// scores); a key that is not seen has weight +0, which changes no sum; raising a row's reference changes no other
// row's.
//
// Q, K, V and O are stored as bf16, or as float32: then packing rounds Q, K and V, and O has values of bf16.
//
// A vector type V brings: its vectors F of 16 floats and I of 16 words with the overloads of the operations,
// transpose4, widened, pair, products, and Session, which exists while a block is computed.
#pragma once

#include <cstring>

#include "src/cpu/block_kernel.h"

namespace hw4::cpu {

// add_exponent(y, t) if x is above `least`, else 0.
HW4_INLINE float add_exponent_above(float least, float x, float y, float t) {
    return x > least ? add_exponent(y, t) : 0.0f;
}

// 2^x within 2^-22; 0 below the normal numbers.
template <class F>
HW4_INLINE F power_of_2(F x) {
    const F t = x + F(kRoundToInt);
    const F n = t - F(kRoundToInt);
    return add_exponent_above(F(-125.0f), x, exp2_fraction(x - n), t);
}

template <class V>
struct TileAttention {
    using F = typename V::F;
    using I = typename V::I;
    static constexpr int64_t kWidth = 16;     // rows of a vector, and columns of a block
    static constexpr int64_t kRowVectors = 2; // of a group
    static constexpr int64_t kRows = kRowVectors * kWidth;
    static constexpr int64_t kColumns = 32; // of a product
    static constexpr int64_t kDepth = 32;   // of a product's step
    static constexpr int64_t kPairs = kDepth / 2;
    static constexpr int64_t kTileNumbers = kWidth * kDepth; // of one block or vector in one step
    static constexpr int64_t kStepRows = kRowVectors * kTileNumbers;
    static constexpr int64_t kTileKeys = 128; // a row's reference may rise only between tiles
    static constexpr int64_t kBlockRows = 192;
    static constexpr int64_t kMostDim = 1024; // sets the size of workspaces
    static constexpr size_t kLine = 64;
    static_assert(kBlockRows % kRows == 0 && kTileKeys % kColumns == 0 && kColumns == kDepth);

    // Up to here a reference is scaled and rounded, which adds the same error to all exponents of a row, at most 2^-14.
    // Beyond, the reference is subtracted from scores before they are scaled.
    static constexpr float kFar = 1024.0f;
    static constexpr float kValueScale = 0x1p64f;
    static constexpr float kValueUnit = 0x1p-64f;
    static constexpr uint32_t kHuge = 0x5f80u; // 2^64 as bf16

    static HW4_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
    static HW4_INLINE uint32_t larger_of(uint32_t a, uint32_t b) { return a > b ? a : b; }
    static HW4_INLINE int64_t steps(int64_t depth) { return (depth + kDepth - 1) / kDepth; }
    static HW4_INLINE int64_t rounded_up(int64_t depth) { return steps(depth) * kDepth; }
    template <size_t kCount>
    static HW4_INLINE bool any_of(const bool (&flags)[kCount]) {
        bool any = false;
        for (const bool flag : flags) any = any || flag;
        return any;
    }
    static HW4_INLINE float value_of(uint16_t bits) { return float_of(uint32_t{bits} << 16); }

    // ---- K and V of a head, tile by tile

    struct alignas(kLine) TileHead {
        bool any_huge;
        bool huge[kTileKeys];
    };

    struct TileLayout {
        int64_t k_block; // numbers of 16 keys
        int64_t v_block; // of 16 columns
        size_t v;        // bytes before the blocks of V
        size_t bytes;

        explicit HW4_INLINE TileLayout(int64_t dim)
            : k_block(steps(dim) * kTileNumbers), v_block(steps(kTileKeys) * kTileNumbers),
              v(sizeof(TileHead) + static_cast<size_t>(kTileKeys / kWidth * k_block) * sizeof(uint16_t)),
              bytes(v + static_cast<size_t>(rounded_up(dim) / kWidth * v_block) * sizeof(uint16_t)) {}
    };

    static HW4_INLINE const uint16_t* numbers_at(const uint8_t* bytes) {
        return reinterpret_cast<const uint16_t*>(bytes);
    }

    static HW4_INLINE int64_t tiles_of(int64_t keys) { return (keys + kTileKeys - 1) / kTileKeys; }

    static size_t prepared_bytes(int64_t keys, int64_t dim) {
        return static_cast<size_t>(tiles_of(keys)) * TileLayout(dim).bytes;
    }

    static HW4_INLINE uint16_t rounded(uint16_t x) { return x; }
    static HW4_INLINE uint16_t rounded(float x) { return bf16_bits(x); }

    // The first kCount of `count` numbers, which may be 0 or negative: zeros follow.
    template <int64_t kCount, class E>
    static HW4_INLINE void copy_some(const E* from, int64_t count, uint16_t* to) {
        if (count >= kCount) {
            for (int64_t i = 0; i < kCount; ++i) to[i] = rounded(from[i]);
            return;
        }
        for (int64_t i = 0; i < kCount; ++i) to[i] = i < count ? rounded(from[i]) : uint16_t{0};
    }

    // Columns [first, first + kDepth) of 16 rows, `rows` of which exist. Notes which rows have a huge number.
    template <class E>
    static HW4_INLINE void pack_rows(const E* from, int64_t rows, int64_t dim, int64_t first, uint16_t* to,
                                     bool* huge) {
        for (int64_t row = 0; row < kWidth; ++row, to += kDepth) {
            copy_some<kDepth>(from + row * dim + first, row < rows ? dim - first : 0, to);
            uint32_t largest = 0;
            for (int64_t t = 0; t < kDepth; ++t) largest = larger_of(largest, to[t] & 0x7fffu);
            huge[row] = huge[row] || largest >= kHuge;
        }
    }

    // [16][16] words.
    static HW4_INLINE void transpose(const int32_t* from, int32_t* to) {
        for (int64_t row = 0; row < kWidth; row += 4)
            for (int64_t x = 0; x < kWidth; x += 4)
                V::transpose4(from + row * kWidth + x, kWidth, to + x * kWidth + row, kWidth);
    }

    template <class E>
    static void prepare_keys(const E* k, int64_t keys, int64_t dim, TileHead& head, uint16_t* to) {
        for (int64_t j = 0; j < kTileKeys; j += kWidth)
            for (int64_t step = 0; step < steps(dim); ++step, to += kTileNumbers)
                pack_rows(k + j * dim, keys - j, dim, step * kDepth, to, head.huge + j);
        head.any_huge = any_of(head.huge);
    }

    template <class E>
    static void prepare_values(const E* v, int64_t keys, int64_t dim, uint16_t* to) {
        alignas(kLine) int32_t words[kPairs][kWidth]; // [pair of keys][column]
        for (int64_t x = 0; x < rounded_up(dim); x += kWidth)
            for (int64_t first = 0; first < kTileKeys; first += kDepth, to += kTileNumbers) {
                const auto value = [&](int64_t key) {
                    alignas(kLine) uint16_t some[kWidth];
                    copy_some<kWidth>(v + key * dim + x, key < keys ? dim - x : 0, some);
                    return V::widened(some) * F(kValueScale);
                };
                for (int64_t pair = 0; pair < kPairs; ++pair)
                    V::pair(value(first + 2 * pair), value(first + 2 * pair + 1)).store(words[pair]);
                transpose(words[0], reinterpret_cast<int32_t*>(to));
            }
    }

    static void prepare(const KeyTiles& tiles, void* prepared) {
        if (tiles.element == Element::bf16) return prepare_as<uint16_t>(tiles, prepared);
        prepare_as<float>(tiles, prepared);
    }

    template <class E>
    static void prepare_as(const KeyTiles& tiles, void* prepared) {
        const TileLayout layout(tiles.dim);
        for (int64_t tile = tiles.first; tile < tiles.end; ++tile) {
            auto* const to = static_cast<uint8_t*>(prepared) + static_cast<size_t>(tile) * layout.bytes;
            const int64_t first = tile * kTileKeys;
            const int64_t keys = least(kTileKeys, tiles.keys - first);
            TileHead head{};
            const auto rows_of = [&](const void* all) { return static_cast<const E*>(all) + first * tiles.dim; };
            prepare_keys(rows_of(tiles.k), keys, tiles.dim, head, reinterpret_cast<uint16_t*>(to + sizeof(TileHead)));
            std::memcpy(to, &head, sizeof head);
            prepare_values(rows_of(tiles.v), keys, tiles.dim, reinterpret_cast<uint16_t*>(to + layout.v));
        }
    }

    // ---- A block of rows

    // The state of a group's rows from tile to tile, row index last, so that a vector load takes 16 rows. A weight is
    // 2^(c * (score - origin) - base): near 0 the origin is 0, and far from it the base is 0.
    struct Group {
        alignas(kLine) float base[kRows];
        alignas(kLine) float origin[kRows];
        alignas(kLine) float raise_above[kRows];
        alignas(kLine) float l[kRows];
        bool huge[kRows];
        bool any_huge;
        bool any_far;
    };

    static HW4_INLINE int64_t groups_of(int64_t rows) { return (rows + kRows - 1) / kRows; }
    static HW4_INLINE int64_t q_numbers(int64_t dim) { return steps(dim) * kStepRows; }
    static HW4_INLINE int64_t o_floats(int64_t dim) { return rounded_up(dim) * kRows; }

    struct Workspace {
        Group* groups; // [groups], enough for the rows of the block
        uint16_t* q;   // [groups][q_numbers]
        float* o;      // [groups][o_floats], times 2^64
        float* s;      // [kTileKeys][kRows]
        uint16_t* p;   // [steps of kTileKeys][kStepRows]
        size_t floats;

        Workspace(float* base, int64_t rows, int64_t dim) {
            WorkspaceParts parts(base);
            const auto count = static_cast<size_t>(groups_of(rows));
            groups = parts.make<Group>(count);
            q = reinterpret_cast<uint16_t*>(parts.take(count * static_cast<size_t>(q_numbers(dim)) / 2));
            o = parts.take(count * static_cast<size_t>(o_floats(dim)));
            s = parts.take(static_cast<size_t>(kTileKeys * kRows));
            p = reinterpret_cast<uint16_t*>(parts.take(static_cast<size_t>(steps(kTileKeys) * kStepRows) / 2));
            floats = parts.floats();
        }
    };

    static size_t workspace_floats(int64_t rows, int64_t dim) { return Workspace(nullptr, rows, dim).floats; }

    template <class E>
    static void start_group(Group& group, const E* q, int64_t rows, int64_t dim, uint16_t* to, float* o) {
        for (bool& huge : group.huge) huge = false;
        alignas(kLine) uint16_t numbers[kTileNumbers]; // [row][place]
        for (int64_t step = 0; step < steps(dim); ++step)
            for (int64_t row = 0; row < kRows; row += kWidth, to += kTileNumbers) {
                pack_rows(q + row * dim, rows - row, dim, step * kDepth, numbers, group.huge + row);
                transpose(reinterpret_cast<const int32_t*>(numbers), reinterpret_cast<int32_t*>(to));
            }
        group.any_huge = any_of(group.huge);
        group.any_far = false;
        for (int64_t row = 0; row < kRows; ++row) {
            group.base[row] = 0.0f;
            group.origin[row] = 0.0f;
            group.raise_above[row] = -HUGE_VALF;
            group.l[row] = 0.0f;
        }
        for (int64_t i = 0; i < o_floats(dim); ++i) o[i] = 0.0f;
    }

    struct Tile {
        const TileHead* head;
        const uint16_t* k;
        const uint16_t* v;
        int64_t keys; // visible to a row of the group, in whole steps
        // How many keys the first row sees; each row after it sees one more, up to `exist`. May be negative.
        int64_t first_seen;
        int64_t exist;

        HW4_INLINE int64_t seen(int64_t row) const { return least(first_seen + row, exist); }
    };

    // The same score as in the products, but with one rounding per column and no loss of denormals.
    static float chained_score(const uint16_t* q, int64_t row, const uint16_t* k, int64_t key, int64_t dim,
                               const TileLayout& layout) {
        float sum = 0.0f;
        for (int64_t t = 0; t < dim; ++t) {
            const int64_t step = t / kDepth;
            const int64_t place = t % kDepth;
            const uint16_t a =
                q[step * kStepRows + row / kWidth * kTileNumbers + place / 2 * kDepth + row % kWidth * 2 + place % 2];
            const uint16_t b = k[key / kWidth * layout.k_block + step * kTileNumbers + key % kWidth * kDepth + place];
            sum = hw4::fused(value_of(a), value_of(b), sum);
        }
        return sum;
    }

    static void chain_huge_scores(const Group& group, const uint16_t* q, const Tile& tile, int64_t dim,
                                  const TileLayout& layout, float* s) {
        for (int64_t j = 0; j < tile.keys; ++j)
            for (int64_t row = 0; row < kRows; ++row)
                if (group.huge[row] || tile.head->huge[j])
                    s[j * kRows + row] = chained_score(q, row, tile.k, j, dim, layout);
    }

    static void hide_scores(const Tile& tile, float* s) {
        for (int64_t j = tile.first_seen > 0 ? tile.first_seen : 0; j < tile.keys; ++j)
            for (int64_t row = 0; row < kRows; ++row)
                if (j >= tile.seen(row)) s[j * kRows + row] = -HUGE_VALF;
    }

    // Rows with a too large score get a new reference, and their sums are multiplied.
    static void raise_references(Group& group, const float* tile_max, float* o, int64_t dim, Scale scale) {
        alignas(kLine) float factors[kRows];
        for (int64_t row = 0; row < kRows; ++row) {
            factors[row] = 1.0f;
            const float top = tile_max[row];
            if (!(top > group.raise_above[row])) continue;
            const float scaled = top * scale.c;
            const bool far = !within(scaled, -kFar, kFar);
            const float base = far ? 0.0f : scaled;
            const float origin = far ? top : 0.0f;
            // The sums of a row that has seen nothing are 0.
            factors[row] = power_of_2(hw4::fused(group.origin[row] - origin, scale.c, group.base[row] - base));
            if (group.raise_above[row] == -HUGE_VALF) factors[row] = 0.0f;
            group.base[row] = base;
            group.origin[row] = origin;
            group.raise_above[row] = top;
            group.l[row] *= factors[row];
        }
        group.any_far = false;
        for (const float origin : group.origin) group.any_far = group.any_far || origin != 0.0f;
        for (int64_t i = 0; i < o_floats(dim); i += kWidth)
            (F::load(o + i) * F::load(factors + i % kRows)).store(o + i);
    }

    static void meet_scores(Group& group, const float* s, int64_t keys, float* o, int64_t dim, Scale scale) {
        alignas(kLine) float tile_max[kRows];
        bool raises = false;
        for (int64_t r = 0; r < kRows; r += kWidth) {
            F even = F::load(s + r);
            F odd = F::load(s + kRows + r);
            for (int64_t j = 2; j < keys; j += 2) {
                even = larger(even, F::load(s + j * kRows + r));
                odd = larger(odd, F::load(s + (j + 1) * kRows + r));
            }
            const F m = larger(even, odd);
            m.store(tile_max + r);
            raises = raises || any_above(m, F::load(group.raise_above + r));
        }
        if (raises) raise_references(group, tile_max, o, dim, scale);
    }

    static void take_origins(const Group& group, float* s, int64_t keys) {
        for (int64_t i = 0; i < keys * kRows; i += kWidth)
            (F::load(s + i) - F::load(group.origin + i % kRows)).store(s + i);
    }

    // Turns scores into weights, and sums them: two keys first, then the tile, then the row.
    static void weigh(Group& group, const float* s, int64_t keys, uint16_t* p, Scale scale) {
        const F c(scale.c);
        F base[kRowVectors];
        F sums[kRowVectors];
#pragma GCC unroll 2
        for (int64_t r = 0; r < kRowVectors; ++r) {
            base[r] = F(0.0f) - F::load(group.base + r * kWidth);
            sums[r] = F(0.0f);
        }
        for (int64_t j = 0; j < keys; j += 2) {
#pragma GCC unroll 2
            for (int64_t r = 0; r < kRowVectors; ++r) {
                const auto weight = [&](int64_t key) {
                    return power_of_2(fused(F::load(s + key * kRows + r * kWidth), c, base[r]));
                };
                const F even = weight(j);
                const F odd = weight(j + 1);
                sums[r] = sums[r] + (even + odd);
                const int64_t at = j / kDepth * kStepRows + r * kTileNumbers + j % kDepth * kWidth;
                V::pair(even, odd).store(reinterpret_cast<int32_t*>(p + at));
            }
        }
#pragma GCC unroll 2
        for (int64_t r = 0; r < kRowVectors; ++r) (F::load(group.l + r * kWidth) + sums[r]).store(group.l + r * kWidth);
    }

    // One group of rows against a tile.
    static void attend_tile(Group& group, const uint16_t* q, float* o, const Workspace& w, const Tile& tile,
                            const TileLayout& layout, int64_t dim, Scale scale) {
        for (int64_t j = 0; j < tile.keys; j += kColumns)
            V::template products<false>(tile.k + j / kWidth * layout.k_block, layout.k_block, q, steps(dim),
                                        w.s + j * kRows);
        if (group.any_huge || tile.head->any_huge) chain_huge_scores(group, q, tile, dim, layout, w.s);
        if (tile.seen(0) < tile.keys) hide_scores(tile, w.s);
        meet_scores(group, w.s, tile.keys, o, dim, scale);
        if (group.any_far) take_origins(group, w.s, tile.keys);
        weigh(group, w.s, tile.keys, w.p, scale);
        for (int64_t x = 0; x < dim; x += kColumns)
            V::template products<true>(tile.v + x / kWidth * layout.v_block, layout.v_block, w.p, steps(tile.keys),
                                       o + x * kRows);
    }

    // Finishes O in place, then stores it rounded in the output.
    static void store_rows(const Group& group, float* o, const RowBlock& block, int64_t first, int64_t rows) {
        for (int64_t r = 0; r < kRows; r += kWidth) {
            const F inverse = F(1.0f) / F::load(group.l + r);
            for (int64_t x = 0; x < block.dim; ++x) {
                float* const at = o + x * kRows + r;
                (fused(F::load(at), inverse, F(0.0f)) * F(kValueUnit)).store(at);
            }
        }
        store_turned<V>(o, int64_t{kRows}, block, first, rows);
        if (block.element != Element::float32) return;
        float* const out = static_cast<float*>(block.out) + first * block.dim;
        round_all(Element::bf16, out, static_cast<size_t>(rows * block.dim), out);
    }

    static void store_statistics(const Group& group, int64_t rows, RowStatistics* to) {
        for (int64_t row = 0; row < rows; ++row) to[row] = {group.base[row], group.origin[row], group.l[row]};
    }

    static void attend(const RowBlock& block, float* workspace) {
        [[maybe_unused]] const typename V::Session session{};
        const Workspace w(workspace, block.rows, block.dim);
        const int64_t dim = block.dim;
        const TileLayout layout(dim);
        const auto* const prepared = static_cast<const uint8_t*>(block.prepared);
        const int64_t groups = groups_of(block.rows);
        const auto q_of = [&](int64_t g) { return w.q + g * q_numbers(dim); };
        const auto o_of = [&](int64_t g) { return w.o + g * o_floats(dim); };
        const auto rows_of = [&](int64_t g) { return least(kRows, block.rows - g * kRows); };
        for (int64_t g = 0; g < groups; ++g)
            if (block.element == Element::bf16)
                start_group(w.groups[g], static_cast<const uint16_t*>(block.q) + g * kRows * dim, rows_of(g), dim,
                            q_of(g), o_of(g));
            else
                start_group(w.groups[g], static_cast<const float*>(block.q) + g * kRows * dim, rows_of(g), dim, q_of(g),
                            o_of(g));
        for (int64_t t = tiles_of(block.sees(block.rows - 1)) - 1; t >= 0; --t) {
            const uint8_t* const at = prepared + static_cast<size_t>(t) * layout.bytes;
            const int64_t first_key = t * kTileKeys;
            for (int64_t g = 0; g < groups; ++g) {
                const int64_t most_seen = block.sees(g * kRows + rows_of(g) - 1) - first_key;
                if (most_seen <= 0) continue;
                const Tile tile = {reinterpret_cast<const TileHead*>(at),
                                   numbers_at(at + sizeof(TileHead)),
                                   numbers_at(at + layout.v),
                                   rounded_up(least(kTileKeys, most_seen)),
                                   block.sees(g * kRows) - first_key,
                                   block.keys - first_key};
                attend_tile(w.groups[g], q_of(g), o_of(g), w, tile, layout, dim, block.scale);
            }
        }
        for (int64_t g = 0; g < groups; ++g) {
            store_rows(w.groups[g], o_of(g), block, g * kRows, rows_of(g));
            if (block.statistics != nullptr) store_statistics(w.groups[g], rows_of(g), block.statistics + g * kRows);
        }
    }

    static constexpr BlockKernel blocks(bool (*supported)()) {
        return {.supported = supported,
                .block_rows = kBlockRows,
                .workspace_floats = workspace_floats,
                .attend = attend,
                .most_dim = kMostDim,
                .elements = kBf16AndFloat32,
                .prepared_keys = kTileKeys,
                .prepared_bytes = prepared_bytes,
                .prepare = prepare};
    }
};

} // namespace hw4::cpu
