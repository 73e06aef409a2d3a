// Attention under f32 for a block of query rows, over a small vector type.
//
// The vector axis is the ROWS: each SIMD lane carries one query row through the contract's sequence of operations, so
// every order in the contract (score chains, key order, sum lanes) holds lane by lane, without horizontal operations.
// Both products have one form, an outer-product panel
//
//     c[column][row] = chain over depth, in order, of a[depth][row] * b[depth][column]
//
// scores:  a = Q transposed, b = a tile of K transposed, column = key,     depth = t
// output:  a = weights,      b = a tile of V,            column = feature, depth = key
//
// A vector type V brings: kWidth lanes, kRowVectors x kColumns accumulators that fit its registers, Quad (four b values
// to broadcast), transpose4 and the overloads of the contract's operations.
#pragma once

#include "src/cpu/block_kernel.h"

namespace hw4::cpu {

constexpr int kBlockRowsAbout = 192; // rows of a block, which share the packed key tiles
constexpr int kColumnPad = 8;        // every kColumns divides it, and it divides kKeyTile

// Columns that are packed at a time. All columns of an ordinary row; the groups of a block then share the packed rows.
// A longer row is packed anew for each group, so that packed rows never take more memory than this.
constexpr int64_t kPackedColumns = int64_t{1} << 16;
static_assert(kPackedColumns % kScoreColumns == 0 && kPackedColumns % kColumnPad == 0, "chains and panels stay whole");

template <class V>
struct Attention {
    static constexpr int64_t kRows = V::kRowVectors * V::kWidth; // of a group
    static constexpr int64_t kGroups = kBlockRowsAbout / kRows;
    static constexpr int64_t kBlockRows = kGroups * kRows;
    static_assert(kColumnPad % V::kColumns == 0 && kKeyTile % kColumnPad == 0, "panels must cover tiles exactly");
    static_assert(V::kColumns % 4 == 0, "b is broadcast four values at a time");
    static_assert(kRows * sizeof(float) % V::kAlign == 0, "rows of a panel must stay aligned");

    // The state of a group's rows, row index last, so that a vector load takes kWidth rows.
    struct Group {
        Reference total_reference[kRows];
        bool raised;                // whether any row's reference was raised since the last fold
        alignas(64) float M[kRows]; // the fields of the rows' references, each as vectors
        alignas(64) float origin[kRows];
        alignas(64) float bias[kRows];
        alignas(64) float floor[kRows];
        alignas(64) float raise_above[kRows];
        alignas(64) float largest[kRows]; // the largest score in the last tile
        alignas(64) float lanes[kSumLanes][kRows];
    };

    static int64_t padded_dim(int64_t dim) { return (dim + kColumnPad - 1) / kColumnPad * kColumnPad; }

    static bool is_long(int64_t dim) { return dim > kPackedColumns; }

    // The number of columns packed together from column `first` on.
    static int64_t packed_columns(int64_t first, int64_t dim) {
        return dim - first < kPackedColumns ? dim - first : kPackedColumns;
    }

    static int64_t groups_of(int64_t rows) { return (rows + kRows - 1) / kRows; }

    struct Workspace {
        Group* groups; // [groups], enough for the rows of the block
        float* qt;     // [groups][dim][kRows]; for long rows [packed][kRows]
        float* o;      // [groups][padded dim][kRows]
        float* total;  // [groups][padded dim][kRows]
        float* kt;     // [packed][kKeyTile]
        float* v;      // [kKeyTile][packed, padded]
        float* p;      // [kKeyTile][kRows]
        size_t floats;

        Workspace(float* base, int64_t rows, int64_t dim) {
            WorkspaceParts parts(base);
            const auto count = static_cast<size_t>(groups_of(rows));
            const auto packed = static_cast<size_t>(packed_columns(0, dim));
            const auto padded = static_cast<size_t>(padded_dim(dim));
            groups = parts.make<Group>(count);
            qt = parts.take((is_long(dim) ? 1 : count) * packed * kRows);
            o = parts.take(count * padded * kRows);
            total = parts.take(count * padded * kRows);
            kt = parts.take(packed * kKeyTile);
            v = parts.take(kKeyTile * static_cast<size_t>(padded_dim(packed_columns(0, dim))));
            p = parts.take(size_t{kKeyTile} * kRows);
            floats = parts.floats();
        }
    };

    static size_t workspace_floats(int64_t rows, int64_t dim) { return Workspace(nullptr, rows, dim).floats; }

    // The rows of one group and their parts of the workspace.
    struct GroupRows {
        const float* q; // [rows][dim]
        int64_t rows;
        float* qt;
        float* o;
        float* total;
        int64_t first_sees; // the number of keys, as in RowBlock; also counted for rows that do not exist
        int64_t most_seen;  // keys that the last row sees
        int64_t window;     // as in RowBlock
        int64_t first_from; // the first key that the first row sees
        int64_t last_from;  // the first key that the last row sees
    };

    // A tile of keys, as far as a row that sees `seen` keys sees it. Other rows of the group may see less: their
    // weights are +0 and their segments end late, after adding only +0. Weights before a row's window are +0, too.
    struct Tile {
        const float* k; // [keys][dim]
        const float* v; // [keys][dim]
        int64_t first;  // key
        int keys;
        bool starts_segment;
        bool ends_segment; // both if the last segment has one tile
        Tile(const RowBlock& block, int64_t first_key, int64_t seen)
            : k(static_cast<const float*>(block.k) + first_key * block.dim),
              v(static_cast<const float*>(block.v) + first_key * block.dim), first(first_key),
              keys(static_cast<int>(seen - first_key < kKeyTile ? seen - first_key : kKeyTile)),
              starts_segment(first_key % kSegmentKeys == 0),
              ends_segment((first_key + kKeyTile) % kSegmentKeys == 0 || first_key + kKeyTile >= seen) {}
    };

    // The start of a panel's chains, at place `at` of [kColumns][kRows].
    struct Zero {
        HW4_INLINE V operator()(int64_t) const { return V(0.0f); }
    };
    struct From {
        const float* c;
        HW4_INLINE V operator()(int64_t at) const { return V::load(c + at); }
    };

    // What to do with a chain's result x.
    struct StoreTo {
        float* c;
        HW4_INLINE void operator()(int64_t at, V x) const { x.store(c + at); }
    };
    struct AddTo {
        float* c;
        HW4_INLINE void operator()(int64_t at, V x) const { (V::load(c + at) + x).store(c + at); }
    };
    struct FoldInto {
        float* total;
        const float* factors; // [kRows]
        HW4_INLINE void operator()(int64_t at, V x) const {
            fused(V::load(total + at), V::load(factors + at % kRows), x).store(total + at);
        }
    };

    // c[kColumns][kRows] from a[depth][kRows] * b[depth][kColumns]; b's rows are `b_stride` apart.
    template <class Start, class End>
    static HW4_INLINE void panel(const float* a, const float* b, int64_t b_stride, int64_t depth, Start start,
                                 End end) {
        V acc[V::kColumns][V::kRowVectors];
#pragma GCC unroll 8
        for (int x = 0; x < V::kColumns; ++x)
#pragma GCC unroll 4
            for (int r = 0; r < V::kRowVectors; ++r) acc[x][r] = start(x * kRows + r * V::kWidth);
        for (int64_t t = 0; t < depth; ++t, a += kRows, b += b_stride) {
            V rows[V::kRowVectors];
#pragma GCC unroll 4
            for (int r = 0; r < V::kRowVectors; ++r) rows[r] = V::load(a + r * V::kWidth);
#pragma GCC unroll 2
            for (int x = 0; x < V::kColumns; x += 4) {
                const typename V::Quad quad = V::quad(b + x);
#pragma GCC unroll 4
                for (int r = 0; r < V::kRowVectors; ++r) {
                    acc[x + 0][r] = V::template fused_lane<0>(rows[r], quad, acc[x + 0][r]);
                    acc[x + 1][r] = V::template fused_lane<1>(rows[r], quad, acc[x + 1][r]);
                    acc[x + 2][r] = V::template fused_lane<2>(rows[r], quad, acc[x + 2][r]);
                    acc[x + 3][r] = V::template fused_lane<3>(rows[r], quad, acc[x + 3][r]);
                }
            }
        }
#pragma GCC unroll 8
        for (int x = 0; x < V::kColumns; ++x)
#pragma GCC unroll 4
            for (int r = 0; r < V::kRowVectors; ++r) end(x * kRows + r * V::kWidth, acc[x][r]);
    }

    static HW4_INLINE Reference reference_of(const Group& group, int row) {
        return {group.M[row], group.origin[row], group.bias[row], group.floor[row], group.raise_above[row]};
    }

    static HW4_INLINE void set_reference(Group& group, int row, const Reference& reference) {
        group.M[row] = reference.M;
        group.origin[row] = reference.origin;
        group.bias[row] = reference.bias;
        group.floor[row] = reference.floor;
        group.raise_above[row] = reference.raise_above;
    }

    static HW4_INLINE void scale_row(float* matrix, int64_t count, int row, float factor) {
        for (int64_t i = 0; i < count; ++i) matrix[i * kRows + row] *= factor;
    }

    static void start_group(Group& group, float* total, int64_t padded) {
        for (int row = 0; row < kRows; ++row) {
            set_reference(group, row, empty_reference());
            group.total_reference[row] = empty_reference();
        }
        group.raised = false;
        clear(&group.lanes[0][0], kSumLanes * kRows);
        clear(total, padded * kRows);
    }

    static HW4_INLINE void clear(float* x, int64_t count) {
        for (int64_t i = 0; i < count; ++i) x[i] = 0.0f;
    }

    // Columns of [rows][dim] -> [columns][to_rows]: element (row, t) goes to to[t][row]; rows that do not exist are
    // zero. Works on 4 x 4 pieces, so that both sides move whole vectors.
    static void pack_transposed(const float* from, int64_t rows, int64_t dim, int64_t columns, float* to,
                                int64_t to_rows) {
        const int64_t whole_rows = rows / 4 * 4;
        const int64_t whole_columns = columns / 4 * 4;
        for (int64_t row = 0; row < whole_rows; row += 4)
            for (int64_t t = 0; t < whole_columns; t += 4)
                V::transpose4(from + row * dim + t, dim, to + t * to_rows + row, to_rows);
        const auto one_by_one = [&](int64_t first_row, int64_t first_t) {
            for (int64_t t = first_t; t < columns; ++t)
                for (int64_t row = first_row; row < to_rows; ++row)
                    to[t * to_rows + row] = row < rows ? from[row * dim + t] : 0.0f;
        };
        one_by_one(whole_rows, 0);
        one_by_one(0, whole_columns);
    }

    // Pack the columns from `first` on.
    static void pack_queries(const GroupRows& group, int64_t first, int64_t dim) {
        pack_transposed(group.q + first, group.rows, dim, packed_columns(first, dim), group.qt, kRows);
    }
    static void pack_keys(const Tile& tile, int64_t first, int64_t dim, float* to) {
        pack_transposed(tile.k + first, tile.keys, dim, packed_columns(first, dim), to, kKeyTile);
    }
    // The values have their own layout, with zeros for keys and columns that do not exist.
    static void pack_values(const Tile& tile, int64_t first, int64_t dim, float* to) {
        const int64_t columns = packed_columns(first, dim);
        const int64_t padded = padded_dim(columns);
        for (int64_t j = 0; j < kKeyTile; ++j, to += padded) {
            const int64_t present = j < tile.keys ? columns : 0;
            for (int64_t x = 0; x < present; ++x) to[x] = tile.v[j * dim + first + x];
            clear(to + present, padded - present);
        }
    }

    // Gives rows with an uncovered largest score a new reference; this is rare, so one row at a time. `columns` is the
    // number of columns of o that exist so far: at the start of a segment none.
    static void raise_references(Group& group, float* o, int64_t columns, Scale scale) {
        for (int row = 0; row < kRows; ++row) {
            const Reference reference = reference_of(group, row);
            if (reference.covers(group.largest[row])) continue;
            const Reference raised = reference_at(group.largest[row], scale);
            const float alpha = rescale_factor(reference, raised, scale);
            scale_row(&group.lanes[0][0], kSumLanes, row, alpha);
            scale_row(o, columns, row, alpha);
            set_reference(group, row, raised);
        }
        group.raised = true;
    }

    // Raises references where the scores require it.
    static HW4_INLINE void meet_scores(Group& group, const float* s, int keys, float* o, int64_t columns, Scale scale) {
        bool covered = true;
        for (int r = 0; r < kRows; r += V::kWidth) {
            V m = V::load(s + r);
            for (int j = 1; j < keys; ++j) m = larger(m, V::load(s + j * kRows + r));
            m.store(group.largest + r);
            covered = covered && !any_above(m, V::load(group.raise_above + r));
        }
        if (!covered) raise_references(group, o, columns, scale);
    }

    // The weights of a tile that count, by key and row: all of them.
    struct All {
        HW4_INLINE V operator()(V weight, int64_t) const { return weight; }
    };
    // Only weights with a factor of 1, not 0.
    struct Seen {
        const float* factors; // [kKeyTile][kRows]
        HW4_INLINE V operator()(V weight, int64_t at) const { return fused(weight, V::load(factors + at), V(0.0f)); }
    };

    // Turns scores into weights in place, and sums them by lane, for `kKeys` keys of one sum lane, the first at place
    // `at` of [kKeyTile][kRows]. Works on all row vectors at once, so that enough chains keep the unit busy.
    template <int kKeys, class Counts>
    static HW4_INLINE void weigh_lane(Group& group, float* p, int64_t at, float* lane, V c, Counts counts) {
        p += at;
        V share[V::kRowVectors];
#pragma GCC unroll 4
        for (int j = 0; j < kKeys; ++j) {
#pragma GCC unroll 4
            for (int r = 0; r < V::kRowVectors; ++r) {
                const int row = r * V::kWidth;
                const V x =
                    larger(V::load(p + j * kRows + row) - V::load(group.origin + row), V::load(group.floor + row));
                const V weight = counts(exp2_scaled(x, c, V::load(group.bias + row)), at + j * kRows + row);
                weight.store(p + j * kRows + row);
                share[r] = j == 0 ? weight : V(share[r] + weight);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < V::kRowVectors; ++r) (V::load(lane + r * V::kWidth) + share[r]).store(lane + r * V::kWidth);
    }

    // Keys that do not exist have weight +0, which changes no sum.
    template <class Counts>
    static HW4_INLINE void weigh(Group& group, float* p, int keys, Scale scale, Counts counts) {
        static_assert(kLaneKeys == 4, "a last lane has one, two or three keys");
        const V c(scale.c);
        int64_t g = 0;
        for (; (g + 1) * kLaneKeys <= keys; ++g)
            weigh_lane<kLaneKeys>(group, p, g * kLaneKeys * kRows, group.lanes[g], c, counts);
        const int64_t last = g * kLaneKeys * kRows;
        switch (keys % kLaneKeys) {
        case 1: weigh_lane<1>(group, p, last, group.lanes[g], c, counts); break;
        case 2: weigh_lane<2>(group, p, last, group.lanes[g], c, counts); break;
        case 3: weigh_lane<3>(group, p, last, group.lanes[g], c, counts); break;
        default: break;
        }
        clear(p + keys * kRows, (kKeyTile - keys) * kRows);
    }

    // Turns the scores of a tile into weights if some rows of the group do not see all of it. A hidden score becomes
    // the least float: it raises no reference, and its weight is finite, so that its product with 0 is +0.
    static void weigh_seen(Group& group, const GroupRows& rows, float* p, const Tile& tile, int64_t columns,
                           Scale scale) {
        alignas(64) float factors[kKeyTile * kRows];
        for (int64_t j = 0; j < tile.keys; ++j)
            for (int64_t row = 0; row < kRows; ++row) {
                const int64_t end = rows.first_sees + row;
                const bool seen = tile.first + j < end && tile.first + j >= end - rows.window;
                factors[j * kRows + row] = seen ? 1.0f : 0.0f;
                if (!seen) p[j * kRows + row] = -HUGE_VALF;
            }
        meet_scores(group, p, tile.keys, rows.o, columns, scale);
        weigh(group, p, tile.keys, scale, Seen{factors});
    }

    // The factors of the totals before a segment is added: 1 for a row with an unchanged reference.
    static void take_factors(Group& group, float* factors, Scale scale) {
        for (int row = 0; row < kRows; ++row) factors[row] = 1.0f;
        if (!group.raised) return;
        for (int row = 0; row < kRows; ++row) {
            const Reference reference = reference_of(group, row);
            factors[row] = rescale_factor(group.total_reference[row], reference, scale);
            group.total_reference[row] = reference;
        }
        group.raised = false;
    }

    static void store_rows(const Group& group, const float* total, int64_t rows, int64_t dim, float* out,
                           RowStatistics* statistics) {
        alignas(64) float l[kRows];
        for (int r = 0; r < kRows; r += V::kWidth) {
            V lanes[kSumLanes];
            for (int g = 0; g < kSumLanes; ++g) lanes[g] = V::load(group.lanes[g] + r);
            close_lanes(lanes).store(l + r);
        }
        for (int64_t row = 0; row < rows; ++row) {
            const float inv = 1.0f / l[row];
            for (int64_t x = 0; x < dim; ++x) out[row * dim + x] = result(total[x * kRows + row], inv);
        }
        if (statistics == nullptr) return;
        for (int64_t row = 0; row < rows; ++row) statistics[row] = {group.M[row], group.origin[row], l[row]};
    }

    // The scores of kColumns keys: block by block of the columns; the first block starts the sums.
    static HW4_INLINE void score_keys(const float* qt, const float* kt, int64_t kt_stride, int64_t columns, bool starts,
                                      float* s) {
        int64_t t = 0;
        if (starts) {
            t = columns < kScoreColumns ? columns : int64_t{kScoreColumns};
            panel(qt, kt, kt_stride, t, Zero{}, StoreTo{s});
        }
        for (; t < columns; t += kScoreColumns) {
            const int64_t depth = columns - t < kScoreColumns ? columns - t : int64_t{kScoreColumns};
            panel(qt + t * kRows, kt + t * kt_stride, kt_stride, depth, Zero{}, AddTo{s});
        }
    }

    // Adds a tile to the output, in the packed columns; o and total begin there. The running sums are in memory only
    // between the tiles of a segment: its first tile starts them, and its last tile adds them from its registers to the
    // totals, which are first multiplied by `factors`.
    static void add_values(float* o, float* total, const Workspace& w, const Tile& tile, int64_t padded,
                           const float* factors) {
        const auto columns = [&](auto start, auto end) {
            for (int64_t x = 0; x < padded; x += V::kColumns)
                panel(w.p, w.v + x, padded, kKeyTile, start(x * kRows), end(x * kRows));
        };
        const auto from = [&](auto start) {
            if (!tile.ends_segment) return columns(start, [&](int64_t at) { return StoreTo{o + at}; });
            columns(start, [&](int64_t at) { return FoldInto{total + at, factors}; });
        };
        if (tile.starts_segment) return from([](int64_t) { return Zero{}; });
        from([&](int64_t at) { return From{o + at}; });
    }

    // One group of rows against a tile. Not inlined into attend(): its variables and a panel's do not fit the registers
    // together, and the panel would keep sums in memory.
    static __attribute__((noinline)) void attend_tile(Group& group, const GroupRows& rows, const Workspace& w,
                                                      const Tile& tile, int64_t dim, Scale scale) {
        for (int64_t t = 0; t < dim; t += kPackedColumns) {
            if (is_long(dim)) {
                pack_queries(rows, t, dim);
                pack_keys(tile, t, dim, w.kt);
            }
            for (int j = 0; j < kKeyTile; j += V::kColumns)
                score_keys(rows.qt, w.kt + j, kKeyTile, packed_columns(t, dim), t == 0, w.p + j * kRows);
        }
        const int64_t columns = tile.starts_segment ? 0 : padded_dim(dim);
        if (tile.first + tile.keys > rows.first_sees || tile.first < rows.last_from) {
            weigh_seen(group, rows, w.p, tile, columns, scale);
        } else {
            meet_scores(group, w.p, tile.keys, rows.o, columns, scale);
            weigh(group, w.p, tile.keys, scale, All{});
        }
        alignas(64) float factors[kRows];
        if (tile.ends_segment) take_factors(group, factors, scale);
        for (int64_t x = 0; x < dim; x += kPackedColumns) {
            if (is_long(dim)) pack_values(tile, x, dim, w.v);
            add_values(rows.o + x * kRows, rows.total + x * kRows, w, tile, padded_dim(packed_columns(x, dim)),
                       factors);
        }
    }

    // A group begins with a whole segment.
    static HW4_INLINE int64_t segment_start(int64_t key) { return key / kSegmentKeys * kSegmentKeys; }

    static GroupRows rows_of(const RowBlock& block, const Workspace& w, int64_t group) {
        const int64_t dim = block.dim;
        const int64_t first = group * kRows;
        const int64_t rows = block.rows - first < kRows ? block.rows - first : kRows;
        return {static_cast<const float*>(block.q) + first * dim,
                rows,
                is_long(dim) ? w.qt : w.qt + first * dim,
                w.o + first * padded_dim(dim),
                w.total + first * padded_dim(dim),
                block.sees(first),
                block.sees(first + rows - 1),
                block.window,
                block.from(first),
                block.from(first + rows - 1)};
    }

    static void start_groups(const RowBlock& block, const Workspace& w) {
        for (int64_t g = 0; g < groups_of(block.rows); ++g) {
            start_group(w.groups[g], rows_of(block, w, g).total, padded_dim(block.dim));
            if (!is_long(block.dim)) pack_queries(rows_of(block, w, g), 0, block.dim);
        }
    }

    static void pack_tile(const Tile& tile, int64_t dim, const Workspace& w) {
        if (is_long(dim)) return;
        pack_keys(tile, 0, dim, w.kt);
        pack_values(tile, 0, dim, w.v);
    }

    static void attend(const RowBlock& block, float* workspace) {
        const Workspace w(workspace, block.rows, block.dim);
        const int64_t dim = block.dim;
        const int64_t groups = groups_of(block.rows);
        start_groups(block, w);
        const int64_t most_seen = block.sees(block.rows - 1);
        for (int64_t j = segment_start(block.from(0)); j < most_seen; j += kKeyTile) {
            const Tile tile(block, j, most_seen);
            pack_tile(tile, dim, w);
            for (int64_t g = 0; g < groups; ++g) {
                const GroupRows rows = rows_of(block, w, g);
                if (j < segment_start(rows.first_from)) continue;
                if (rows.most_seen == most_seen)
                    attend_tile(w.groups[g], rows, w, tile, dim, block.scale);
                else if (j < rows.most_seen)
                    attend_tile(w.groups[g], rows, w, Tile(block, j, rows.most_seen), dim, block.scale);
            }
        }
        for (int64_t g = 0; g < groups; ++g) {
            const GroupRows rows = rows_of(block, w, g);
            store_rows(w.groups[g], rows.total, rows.rows, dim, static_cast<float*>(block.out) + g * kRows * dim,
                       block.statistics == nullptr ? nullptr : block.statistics + g * kRows);
        }
    }

    // A group against the next tile of a part; `rows` are the group's. Rows that do not exist have q = 0.
    static void attend_part_tile(Group& group, const GroupRows& of_group, const Workspace& w, const Tile& tile,
                                 int64_t index, int64_t dim, Scale scale, RowPart* rows) {
        constexpr int64_t kStride = sizeof(RowPart) / sizeof(float);
        static_assert(sizeof(RowPart) % sizeof(float) == 0 && kSumLanes % 4 == 0);
        const bool raised_before = group.raised;
        float before[2][kRows]; // M and origin
        for (int row = 0; row < kRows; ++row) {
            before[0][row] = group.M[row];
            before[1][row] = group.origin[row];
        }
        group.raised = false;
        clear(&group.lanes[0][0], kSumLanes * kRows);
        attend_tile(group, of_group, w, tile, dim, scale);
        for (int row = 0; row < of_group.rows; ++row) {
            rows[row].largest[index] = group.largest[row];
            rows[row].raised[index] = 1.0f;
        }
        for (int row = 0; row < of_group.rows && group.raised; ++row) {
            const Reference after = reference_of(group, row);
            const Reference from{before[0][row], before[1][row], 0.0f, 0.0f, 0.0f};
            if (after.M != from.M || after.origin != from.origin)
                rows[row].raised[index] = rescale_factor(from, after, scale);
        }
        group.raised = group.raised || raised_before;
        const int64_t whole = of_group.rows / 4 * 4;
        for (int64_t row = 0; row < whole; row += 4)
            for (int lane = 0; lane < kSumLanes; lane += 4)
                V::transpose4(group.lanes[lane] + row, kRows, rows[row].shares[index] + lane, kStride);
        for (int64_t row = whole; row < of_group.rows; ++row)
            for (int lane = 0; lane < kSumLanes; ++lane) rows[row].shares[index][lane] = group.lanes[lane][row];
    }

    // All groups take all tiles of the part: keys that a row does not see add +0.
    static void attend_part(const RowBlock& block, int64_t first_key, RowPart* rows, float* sums, float* workspace) {
        const Workspace w(workspace, block.rows, block.dim);
        const int64_t dim = block.dim;
        const int64_t groups = groups_of(block.rows);
        const int64_t most_seen = block.sees(block.rows - 1);
        start_groups(block, w);
        for (int64_t row = 0; row < groups * kRows; ++row) {
            Group& group = w.groups[row / kRows];
            const Reference start = row < block.rows ? rows[row].start : reference_at(0.0f, block.scale);
            set_reference(group, static_cast<int>(row % kRows), start);
            group.total_reference[row % kRows] = start;
        }
        for (int64_t j = first_key; j < first_key + kPartKeys && j < most_seen; j += kKeyTile) {
            Tile tile(block, j, most_seen);
            const bool ends_segment = tile.ends_segment;
            tile.ends_segment = false; // keeps the sums in memory
            pack_tile(tile, dim, w);
            const int64_t segment = (j - first_key) / kSegmentKeys;
            for (int64_t g = 0; g < groups; ++g) {
                const GroupRows of_group = rows_of(block, w, g);
                RowPart* const parts = rows + g * kRows;
                attend_part_tile(w.groups[g], of_group, w, tile, (j - first_key) / kKeyTile, dim, block.scale, parts);
                if (!ends_segment) continue;
                alignas(64) float factors[kRows];
                take_factors(w.groups[g], factors, block.scale);
                for (int row = 0; row < of_group.rows; ++row) {
                    parts[row].rescale[segment] = factors[row];
                    parts[row].end = reference_of(w.groups[g], row);
                }
                RowBlock to;
                to.out = sums + segment * block.rows * dim;
                to.dim = dim;
                store_turned<V>(of_group.o, kRows, to, g * kRows, of_group.rows);
            }
        }
    }

    static constexpr BlockKernel blocks(bool (*supported)()) {
        return {.supported = supported,
                .block_rows = kBlockRows,
                .workspace_floats = workspace_floats,
                .attend = attend,
                .attend_part = attend_part};
    }
};

} // namespace hw4::cpu
