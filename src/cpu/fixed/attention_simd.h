// Attention of the contracts "fixed" and "fixed16" for a block of query rows, over a small set of vector operations.
//
// The vector axis of all float arithmetic is the ROWS: a lane carries one query row through its tiles, without
// horizontal operations. Both products of digits have one form, an outer-product panel
//
//     x[column][row] = combined() of the sums, over depth, of a[depth][row] * b[depth][column]
//
// scores:  a = Q, b = a tile of K, column = key,     depth = t
// output:  a = P, b = a tile of V, column = feature, depth = key
//
// An instruction takes kDepth consecutive places of the depth at once. So both inputs are packed in steps of kDepth: a
// as [step][digit][row][kDepth], b as [block of kColumns][step][digit][column][kDepth], the highest digit first. The
// packing functions get words: the bytes of n + 0x808080 or 0x8080 are a number's digits + 128, and the bytes of P are
// a weight's digits. A vector type may store a's digits with other offsets: kQueryOffset and kWeightOffset are added to
// the true digits of its a, highest first. This adds to the sums an amount that depends only on b, so each block of b
// begins with the initial sums, [kDigits][kColumns], that undo it.
//
// A vector type V brings: its vectors F and I with the overloads of the contract's operations, kWidth lanes,
// kRowVectors, kColumns, kDepth, kLaneBytes (of one digit of kDepth places), kDigits, the two offsets, transpose4,
// gathered (from a table, by lane), kExp2BySegments (exp2_segments.h) and its operations if it is true, pack_a and
// pack_b of kDepth places, pack_weights of kWeightsAtOnce, Sums and ValueSums, the accumulators of a panel of scores
// and of output, kFinishesLate and with it their close() (below), and Session, which exists while a block is computed.
#pragma once

#include "src/cpu/block_kernel.h"
#include "src/cpu/fixed/digit_tiles.h"
#include "src/cpu/fixed/weights_simd.h"

namespace hw4::cpu {

constexpr int64_t kFixedBlockRowsAbout = 96; // rows of a block, which share each tile while it is in the L1 cache

template <class Rules, class V>
struct FixedAttention : DigitTiles<Rules, V> {
    using Tiles = DigitTiles<Rules, V>;
    using Tiles::kKeysAtOnce, Tiles::kColumnBytes, Tiles::kStepB, Tiles::kStartBytes, Tiles::kLine, Tiles::kWordPad;
    using Tiles::kTileKeys, Tiles::kDigits, Tiles::kMostColumns, Tiles::kWidth, Tiles::kColumns, Tiles::kDepth;
    using Tiles::largest_of, Tiles::to_words, Tiles::zero_words;
    using Tiles::least, Tiles::rounded_up, Tiles::steps, Tiles::tiles_of, Tiles::head_of;
    using typename Tiles::F;
    using typename Tiles::I;
    using typename Tiles::TileHead;
    using typename Tiles::TileLayout;
    using typename Tiles::Transposed;
    using Weights = VectorWeights<Rules, V>;
    using Weighing = typename Weights::Weighing;
    static constexpr int kRowVectors = V::kRowVectors;
    static constexpr int kRows = kRowVectors * kWidth; // of a group
    static constexpr int kGroups = static_cast<int>(kFixedBlockRowsAbout / kRows);
    static constexpr int64_t kBlockRows = int64_t{kGroups} * kRows;
    static constexpr size_t kStepA = kColumnBytes * kRows;

    // The state of a group's rows from tile to tile, row index last, so that a vector load takes kWidth rows.
    struct Group {
        alignas(64) int32_t q_exponent[kRows];
        alignas(64) float reference[kRows];
        alignas(64) float l[fixed::kLanes][kRows];
        alignas(64) float h[kRows];
    };

    static HW4_INLINE int64_t groups_of(int64_t rows) { return (rows + kRows - 1) / kRows; }

    struct Workspace {
        Group* groups; // [groups], enough for the rows of the block
        uint8_t* q;    // [groups][steps(dim)][kStepA]
        float* o;      // [groups][padded dim][kRows]
        int32_t* x;    // [kTileKeys][kRows]
        uint8_t* p;    // [kTileKeys / kDepth][kStepA]
        size_t floats;

        Workspace(float* base, int64_t rows, int64_t dim) {
            WorkspaceParts parts(base);
            const auto count = static_cast<size_t>(groups_of(rows));
            groups = parts.make<Group>(count);
            q = reinterpret_cast<uint8_t*>(parts.take(count * q_bytes(dim) / sizeof(float)));
            o = parts.take(count * static_cast<size_t>(padded_rows(dim)));
            x = reinterpret_cast<int32_t*>(parts.take(size_t{kTileKeys} * kRows));
            p = reinterpret_cast<uint8_t*>(parts.take(kTileKeys / kDepth * kStepA / sizeof(float)));
            floats = parts.floats();
        }
    };

    static HW4_INLINE size_t q_bytes(int64_t dim) { return static_cast<size_t>(steps(dim)) * kStepA; }
    static HW4_INLINE int64_t padded_rows(int64_t dim) { return rounded_up(dim, kColumns) * kRows; }
    static_assert(kStepA % sizeof(I) == 0, "vectors of q and p must stay aligned");

    static size_t workspace_floats(int64_t rows, int64_t dim) { return Workspace(nullptr, rows, dim).floats; }

    // Digits of `rows` query rows, at least one; rows that do not exist are zero, with the last row's exponent.
    static void start_group(Group& group, const RowBlock& block, int64_t first_row, int least_k_exponent, uint8_t* to,
                            float* o) {
        const int64_t dim = block.dim;
        const int64_t rows = block.rows - first_row;
        const float factor = fixed::query_factor(block.scale.c);
        const int64_t padded = rounded_up(dim, kWordPad);
        Transposed words; // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
        float scaled[kMostColumns];
        int exponent = 0;
        for (int first = 0; first < kRows; first += kWidth) {
            for (int row = 0; row < kWidth; ++row) {
                if (first + row < rows) {
                    const float* const from =
                        as_floats(block.element, block.q, (first_row + first + row) * dim, dim, scaled);
                    for (int64_t t = 0; t < dim; ++t) scaled[t] = fixed::scaled_query(from[t], factor);
                    exponent = Rules::row_exponent(largest_of(scaled, dim), least_k_exponent);
                    to_words(scaled, dim, padded, fixed::factors(exponent), words.rows[row]);
                } else {
                    zero_words(words.rows[row], padded);
                }
                group.q_exponent[first + row] = exponent;
            }
            words.transpose(padded);
            for (int64_t step = 0; step < steps(dim); ++step) {
                I w[kDepth];
                for (int i = 0; i < kDepth; ++i) w[i] = I::load(words.columns[step * kDepth + i]);
                V::pack_a(w, to + static_cast<size_t>(step) * kStepA + first * V::kLaneBytes, kRows * V::kLaneBytes);
            }
        }
        for (int row = 0; row < kRows; ++row) {
            group.reference[row] = -HUGE_VALF;
            for (auto& l : group.l) l[row] = 0.0f;
            group.h[row] = 0.0f;
        }
        for (int64_t i = 0; i < padded_rows(dim); ++i) o[i] = 0.0f;
    }

    template <class Sums>
    static HW4_INLINE void multiply(Sums& sums, const uint8_t* a, const uint8_t* block, int64_t step_count) {
        sums.start(block);
        const uint8_t* b = block + kStartBytes;
        for (int64_t step = 0; step < step_count; ++step, a += kStepA, b += kStepB) sums.step(a, b);
    }

    // Calls end(column, row vector, x) for `columns` columns and the columns that fill the last panel. With
    // kFinishesLate, the products of a panel run while the panel before is finished.
    template <class Sums, class End>
    static HW4_INLINE void panels(const uint8_t* a, const uint8_t* block, size_t block_bytes, int64_t columns,
                                  int64_t step_count, End end) {
        if constexpr (V::kFinishesLate) {
            Sums sums; // NOLINT(cppcoreguidelines-pro-type-member-init): close() does
            multiply(sums, a, block, step_count);
            sums.close();
            int64_t x = 0;
            for (; x + kColumns < columns; x += kColumns) {
                block += block_bytes;
                multiply(sums, a, block, step_count);
                sums.finish([&](int column, int r, I sum) { end(x + column, r, sum); });
                sums.close();
            }
            sums.finish([&](int column, int r, I sum) { end(x + column, r, sum); });
        } else {
            for (int64_t x = 0; x < columns; x += kColumns, block += block_bytes) {
                Sums sums; // NOLINT(cppcoreguidelines-pro-type-member-init): start() does
                multiply(sums, a, block, step_count);
                sums.finish([&](int column, int r, I sum) { end(x + column, r, sum); });
            }
        }
    }

    // The sums of the weights of a vector of rows.
    struct LaneSums {
        I of[fixed::kLanes];

        HW4_INLINE void add(int key, I weight) { of[fixed::lane_of(key)] = of[fixed::lane_of(key)] + weight; }
    };

    // The weights of a tile that a vector of rows sees: all of them.
    struct All {
        HW4_INLINE All from(int) const { return {}; }
        HW4_INLINE I operator()(int, I weight) const { return weight; }
    };
    // Only weights with bits of ones; the others become zero.
    struct Seen {
        const int32_t* bits; // [kTileKeys][kRows], from these rows on
        HW4_INLINE Seen from(int key) const { return {bits + int64_t{key} * kRows}; }
        HW4_INLINE I operator()(int key, I weight) const { return weight & I::load(bits + int64_t{key} * kRows); }
    };

    static constexpr int kRound = 2 * fixed::kLanes; // after so many keys the lanes repeat

    // Keys [first, first + kDepth) of a tile.
    template <bool kCut, class VisibleKeys, class Counts>
    static HW4_INLINE void weigh_step(const int32_t* x, int first, const Weighing& by, uint8_t* p, LaneSums& sums,
                                      VisibleKeys seen, Counts counts) {
        constexpr int kTogether = kDepth < kRound ? kDepth : kRound;
        static_assert(kTogether % V::kWeightsAtOnce == 0);
        for (int from = 0; from < kDepth; from += kTogether) {
            I w[kTogether];
#pragma GCC unroll 8
            for (int lane = 0; lane < kTogether; ++lane) {
                const int i = from + lane;
                I score = I::load(x + int64_t{i} * kRows);
                if (kCut) score = score.shifted_right(by.cut);
                w[lane] = seen(i, Weights::weight_of(score, by));
                if (counts(i)) sums.add(first + lane, w[lane]);
            }
#pragma GCC unroll 8
            for (int lane = 0; lane < kTogether; lane += V::kWeightsAtOnce)
                V::pack_weights(w + lane, p + int64_t{from + lane} * kWidth, kRows * V::kLaneBytes);
        }
    }

    // Turns scores into the digits of weights; returns the weights' sums.
    template <bool kCut, class VisibleKeys>
    static HW4_INLINE LaneSums weigh(const int32_t* x, int keys, const Weighing& by, uint8_t* p, VisibleKeys seen) {
        constexpr int kTogether = kRound > kDepth ? kRound : kDepth;
        static_assert(kTogether % kDepth == 0 && kTogether % kRound == 0);
        LaneSums sums{{I(0), I(0), I(0), I(0)}};
        const auto at = [&](int key) { return x + int64_t{key} * kRows; };
        const auto to = [&](int key) { return p + static_cast<size_t>(key / kDepth) * kStepA; };
        int j = 0;
        for (; j + kTogether <= keys; j += kTogether)
#pragma GCC unroll 8
            for (int i = 0; i < kTogether; i += kDepth)
                weigh_step<kCut>(at(j + i), i, by, to(j + i), sums, seen.from(j + i), [](int) { return true; });
        for (; j < keys; j += kDepth)
            weigh_step<kCut>(at(j), j, by, to(j), sums, seen.from(j), [&](int i) { return j + i < keys; });
        return sums;
    }

    // What a tile's weights are relative to, for all rows of a group.
    struct References {
        alignas(64) float M[kRows];
        alignas(64) float part[kRows];
        Weighing by[kRowVectors];
        bool cuts; // whether a row's scores are cut
    };

    static HW4_INLINE References references_for(const Group& group, const I (&largest)[kRowVectors], int k_exponent) {
        References all; // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
        all.cuts = false;
        for (int r = 0; r < kRowVectors; ++r) {
            const int at = r * kWidth;
            all.by[r] = Weights::weighing_for(I::load(group.q_exponent + at), k_exponent, largest[r], all.M + at,
                                              all.part + at);
            all.cuts = all.cuts || any_positive(all.by[r].cut);
        }
        return all;
    }

    // Rows get a tile's M as their reference if it exceeds the old one by too much.
    static void raise_references(Group& group, const float* M, float* o, int64_t dim) {
        for (int row = 0; row < kRows; ++row) {
            if (!Rules::raises(M[row], group.reference[row])) continue;
            const float alpha = Rules::rescale(group.reference[row] - M[row]);
            for (auto& l : group.l) l[row] *= alpha;
            group.h[row] *= alpha;
            for (int64_t x = 0; x < dim; ++x) o[x * kRows + row] *= alpha;
            group.reference[row] = M[row];
        }
    }

    struct Tile {
        const uint8_t* k;
        const uint8_t* v;
        TileHead head;
        int keys;
        bool first;
        int64_t seen; // keys that the group's first row sees, each later row one more; also 0 and less

        HW4_INLINE bool hides() const { return seen < keys; }
    };

    // Which scores the rows see, as bits [kTileKeys][kRows], and the largest of these. Hidden ones become the least
    // integer.
    static void hide_scores(int32_t* scores, const Tile& tile, int32_t* bits, I (&largest)[kRowVectors]) {
        for (int64_t j = 0; j < kTileKeys; ++j)
            for (int64_t row = 0; row < kRows; ++row) {
                const bool seen = j < tile.seen + row;
                bits[j * kRows + row] = seen ? -1 : 0;
                if (!seen && j < tile.keys) scores[j * kRows + row] = INT32_MIN;
            }
        for (int r = 0; r < kRowVectors; ++r) {
            largest[r] = I(INT32_MIN);
            for (int64_t j = 0; j < tile.keys; ++j)
                largest[r] = larger(largest[r], I::load(scores + j * kRows + int64_t{r} * kWidth));
        }
    }

    // If a row sees nothing of a tile, its M is so low that the tile adds nothing and raises no reference.
    static void hide_tile(const Tile& tile, References& references) {
        for (int64_t row = 0; row < kRows && tile.seen + row <= 0; ++row) {
            references.M[row] = -HUGE_VALF;
            references.part[row] = 0.0f;
        }
    }

    // One group of rows against a tile.
    static void attend_tile(Group& group, const uint8_t* q, float* o, const Workspace& w, const Tile& tile,
                            const TileLayout& layout, int64_t dim, int least_v_exponent) {
        I largest[kRowVectors];
        for (I& m : largest) m = I(INT32_MIN);
        int32_t* const scores = w.x;
        panels<typename V::Sums>(q, tile.k, layout.k_block, rounded_up(tile.keys, kKeysAtOnce), steps(dim),
                                 [&](int64_t key, int r, I x) {
                                     x.store(scores + key * kRows + int64_t{r} * kWidth);
                                     largest[r] = larger(largest[r], x);
                                 });

        alignas(64) int32_t seen[kTileKeys * kRows];
        if (tile.hides()) hide_scores(scores, tile, seen, largest);

        References references = references_for(group, largest, tile.head.k_exponent);
        LaneSums sums[kRowVectors];
        for (int r = 0; r < kRowVectors; ++r) {
            const int32_t* const x = scores + int64_t{r} * kWidth;
            uint8_t* const p = w.p + r * kWidth * V::kLaneBytes;
            const Weighing& by = references.by[r];
            sums[r] = tile.hides()      ? weigh<true>(x, tile.keys, by, p, Seen{seen + int64_t{r} * kWidth})
                      : references.cuts ? weigh<true>(x, tile.keys, by, p, All{})
                                        : weigh<false>(x, tile.keys, by, p, All{});
        }
        if (tile.hides()) hide_tile(tile, references);

        bool raised = false;
        for (int r = 0; r < kRowVectors; ++r)
            raised = raised ||
                     Weights::any_raised(F::load(references.M + r * kWidth), F::load(group.reference + r * kWidth));
        if (raised) raise_references(group, references.M, o, tile.first ? 0 : dim);

        F o_weight[kRowVectors];
        for (int r = 0; r < kRowVectors; ++r) {
            const int at = r * kWidth;
            const F lead = F::load(references.M + at) - F::load(group.reference + at);
            const VectorTileWeights<F> weights =
                Weights::tile_weights(F::load(references.part + at), lead, least_v_exponent - tile.head.v_exponent);
            o_weight[r] = weights.values;
            (F::load(group.h + at) + o_weight[r]).store(group.h + at);
            for (int i = 0; i < fixed::kLanes; ++i)
                fused(to_float(sums[r].of[i]), weights.sums, F::load(group.l[i] + at)).store(group.l[i] + at);
        }

        panels<typename V::ValueSums>(w.p, tile.v, layout.v_block, dim, steps(tile.keys),
                                      [&](int64_t column, int r, I y) {
                                          float* const sum = o + column * kRows + int64_t{r} * kWidth;
                                          fused(to_float(y), o_weight[r], F::load(sum)).store(sum);
                                      });
    }

    static HW4_INLINE float sum_of_weights(const Group& group, int64_t row) {
        return fixed::sum_of_lanes({group.l[0][row], group.l[1][row], group.l[2][row], group.l[3][row]});
    }

    static void store_rows(const Group& group, float* o, const RowBlock& block, int64_t first, int64_t rows,
                           fixed::Factors scale) {
        const int64_t dim = block.dim;
        alignas(64) float inverse[kRows];
        for (int row = 0; row < kRows; ++row) inverse[row] = 1.0f / sum_of_weights(group, row);
        for (int64_t x = 0; x < dim; ++x)
            for (int row = 0; row < kRows; ++row)
                o[x * kRows + row] = fixed::fixed_result(o[x * kRows + row], group.h[row], inverse[row], scale);
        store_turned<V>(o, int64_t{kRows}, block, first, rows);
    }

    static void store_statistics(const Group& group, int64_t rows, RowStatistics* to) {
        for (int64_t row = 0; row < rows; ++row) to[row] = {group.reference[row], 0.0f, sum_of_weights(group, row)};
    }

    static void attend(const RowBlock& block, float* workspace) {
        [[maybe_unused]] const typename V::Session session{};
        const Workspace w(workspace, block.rows, block.dim);
        const TileLayout layout(block.dim);
        const auto* const prepared = static_cast<const uint8_t*>(block.prepared);
        const int64_t tile_count = tiles_of(block.keys);
        TileHead lowest = head_of(prepared); // the least exponents of all tiles
        for (int64_t tile = 1; tile < tile_count; ++tile) {
            const TileHead head = head_of(prepared + static_cast<size_t>(tile) * layout.bytes);
            if (head.k_exponent < lowest.k_exponent) lowest.k_exponent = head.k_exponent;
            if (head.v_exponent < lowest.v_exponent) lowest.v_exponent = head.v_exponent;
        }

        const int64_t groups = groups_of(block.rows);
        const auto q_of = [&](int64_t g) { return w.q + static_cast<size_t>(g) * q_bytes(block.dim); };
        const auto o_of = [&](int64_t g) { return w.o + g * padded_rows(block.dim); };
        for (int64_t g = 0; g < groups; ++g)
            start_group(w.groups[g], block, g * kRows, lowest.k_exponent, q_of(g), o_of(g));
        for (int64_t t = 0; t < tiles_of(block.sees(block.rows - 1)); ++t) {
            const uint8_t* const at = prepared + static_cast<size_t>(t) * layout.bytes;
            const int64_t first_key = t * kTileKeys;
            Tile tile = {at + kLine,  at + layout.v,
                         head_of(at), static_cast<int>(least(kTileKeys, block.keys - first_key)),
                         t == 0,      0};
            for (int64_t g = 0; g < groups; ++g) {
                if (first_key >= block.sees(least((g + 1) * kRows, block.rows) - 1))
                    continue; // the keys of all its rows end before this tile
                tile.seen = block.sees(g * kRows) - first_key;
                attend_tile(w.groups[g], q_of(g), o_of(g), w, tile, layout, block.dim, lowest.v_exponent);
            }
        }
        const fixed::Factors result_scale = fixed::result_factors(Rules::kUnitBits - lowest.v_exponent);
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t rows = least(kRows, block.rows - g * kRows);
            store_rows(w.groups[g], o_of(g), block, g * kRows, rows, result_scale);
            if (block.statistics != nullptr) store_statistics(w.groups[g], rows, block.statistics + g * kRows);
        }
    }

    static constexpr BlockKernel blocks(bool (*supported)()) {
        return {.supported = supported,
                .block_rows = kBlockRows,
                .workspace_floats = workspace_floats,
                .attend = attend,
                .elements = kEveryElement,
                .prepared_keys = kTileKeys,
                .prepared_bytes = Tiles::prepared_bytes,
                .prepare = Tiles::prepare};
    }
};

} // namespace hw4::cpu
