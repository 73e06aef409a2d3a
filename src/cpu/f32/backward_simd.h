// Backward attention under f32, with forward's small vector type and panels (attention_simd.h).
//
// Here the vector axis is the KEYS: each lane carries one key, and every order in the contract holds lane by lane.
//
// scores:  a = a panel of K transposed, b = Q transposed, column = query,   depth = t; dP the same with V and dO
// dV, dK:  a = P or dS as stored,       b = dO or Q,      column = feature, depth = query
// dQ:      a = dS transposed,           b = K,            column = feature, depth = key; here a lane is a query
//
// The first two products store P and dS in memory, [panel of keys][query], 64 queries at a time, and dQ reads dS while
// it is in the cache. dK and dV are summed when all rows of a slab (backward.cpp) are complete. So nothing is computed
// twice, and no thread waits for another's sums.
#pragma once

#include "src/cpu/backward_kernel.h"
#include "src/cpu/f32/attention_simd.h"

namespace hw4::cpu {

template <class V>
struct Backward {
    using Forward = Attention<V>;
    static constexpr int64_t kLanes = Forward::kRows; // of a panel: keys, or queries for dQ
    static constexpr int64_t kTileKeys = kGradientRows;
    static_assert(kGradientRows % kLanes == 0 && kGradientRows % kSegmentRows == 0, "blocks are whole both ways");
    static_assert(kGradientKeys % kLanes == 0, "blocks of keys are whole panels");
    static_assert(kPairRows % V::kColumns == 0, "scores are taken of whole columns");
    static_assert(kSegmentRows % kColumnPad == 0 && kSegmentRows % V::kWidth == 0, "segments are whole columns");
    static_assert(kGradientColumns % kScoreColumns == 0 && kGradientColumns % kColumnPad == 0, "chains stay whole");

    static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
    static int64_t parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }
    static int64_t columns_from(int64_t first, int64_t dim) { return least(dim - first, kGradientColumns); }
    static int64_t padded_from(int64_t first, int64_t dim) { return Forward::padded_dim(columns_from(first, dim)); }

    // The numbers that make a row's weights and P.
    struct Row {
        float origin;
        float floor;
        float bias;
        float inv;
    };

    struct Workspace {
        Row* rows;    // [rows]
        float* D;     // [segments][kSegmentRows]
        float* qt;    // [segments][packed][kSegmentRows]
        float* doutt; // the same for dO
        float* kt;    // [panels of keys][packed][kLanes]
        float* vt;    // the same for V
        float* k;     // [kTileKeys][packed, padded]
        float* dst;   // [kTileKeys][kLanes]
        float* group; // [panels of rows][packed, padded][kLanes]
        float* total; // as group
        size_t floats;

        Workspace(float* base, int64_t count, int64_t dim) {
            WorkspaceParts all(base);
            const auto take = [&](int64_t wanted) { return all.take(static_cast<size_t>(wanted)); };
            const int64_t segment_rows = parts(count, kSegmentRows) * kSegmentRows;
            const int64_t packed = columns_from(0, dim);
            const int64_t sums = parts(count, kLanes) * kLanes * padded_from(0, dim);
            rows = all.make<Row>(static_cast<size_t>(count));
            D = take(segment_rows);
            qt = take(segment_rows * packed);
            doutt = take(segment_rows * packed);
            kt = take(kTileKeys * packed);
            vt = take(kTileKeys * packed);
            k = take(kTileKeys * padded_from(0, dim));
            dst = take(kTileKeys * kLanes);
            group = take(sums);
            total = take(sums);
            floats = all.floats();
        }
    };

    // For either step.
    static size_t workspace_floats(int64_t rows, int64_t dim) {
        const auto of_keys = static_cast<size_t>(int64_t{2} * kSegmentRows * padded_from(0, dim));
        const size_t of_rows = Workspace(nullptr, rows, dim).floats;
        return of_rows > of_keys ? of_rows : of_keys;
    }

    // ---- Inputs

    // Rows as the b of a panel, with columns padded to a multiple of kColumnPad.
    struct Wide {
        const float* at;
        int64_t stride;
    };

    // The caller's rows if they have that form; otherwise packed rows from column `first` on. Long rows are packed too:
    // their columns are too far apart for a cache.
    static Wide wide_rows(const float* from, int64_t rows, int64_t first, int64_t dim, float* room) {
        if (dim % kColumnPad == 0 && dim <= kGradientColumns) return {from, dim};
        const int64_t columns = columns_from(first, dim);
        const int64_t padded = padded_from(first, dim);
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t x = 0; x < columns; ++x) room[row * padded + x] = from[row * dim + first + x];
            Forward::clear(room + row * padded + columns, padded - columns);
        }
        return {room, padded};
    }

    // Rows in parts of `width`, each transposed: [part][column][width].
    static void pack(const float* from, int64_t rows, int64_t first, int64_t dim, int64_t width, float* to) {
        const int64_t columns = columns_from(first, dim);
        for (int64_t row = 0; row < rows; row += width)
            Forward::pack_transposed(from + row * dim + first, least(rows - row, width), dim, columns,
                                     to + row * columns, width);
    }

    // sums += parts, then parts = 0.
    static void close_into(float* sums, float* parts_of_it, int64_t count) {
        for (int64_t i = 0; i < count; i += V::kWidth) {
            (V::load(sums + i) + V::load(parts_of_it + i)).store(sums + i);
            V(0.0f).store(parts_of_it + i);
        }
    }

    // ---- Pairs

    // dot() of a segment's rows with the keys of a panel, in the packed columns; the first columns start the sums. Not
    // inlined: see Attention::attend_tile().
    static __attribute__((noinline)) void take_dots(const float* keys, const float* rows, int64_t row_count,
                                                    int64_t columns, bool starts, float* to) {
        for (int64_t row = 0; row < row_count; row += V::kColumns)
            Forward::score_keys(keys, rows + row, kSegmentRows, columns, starts, to + row * kLanes);
    }

    // Turns scores and dP of rows and a panel of keys into P and dS, in place.
    static __attribute__((noinline)) void weigh(const Row* rows, const float* d, int64_t count, Scale scale, float* p,
                                                float* ds) {
        const V c(scale.c);
        for (int64_t row = 0; row < count; ++row, p += kLanes, ds += kLanes) {
            const V origin(rows[row].origin);
            const V floor(rows[row].floor);
            const V bias(rows[row].bias);
            const V inv(rows[row].inv);
            const V D(d[row]);
#pragma GCC unroll 4
            for (int r = 0; r < V::kRowVectors; ++r) {
                const int at = r * V::kWidth;
                const V x = larger(V::load(p + at) - origin, floor);
                const V P = probability(V(exp2_scaled(x, c, bias)), inv);
                P.store(p + at);
                score_gradient(P, V::load(ds + at), D).store(ds + at);
            }
        }
    }

    // In a panel from key `first` on, sets pairs that the rows do not see to +0, for any weights.
    static void hide(const VisibleKeys& sight, int64_t rows, int64_t first, float* pairs) {
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t lane = sight.of(row) > first ? sight.of(row) - first : 0; lane < kLanes; ++lane)
                pairs[row * kLanes + lane] = 0.0f;
    }

    // The number of panels of a tile that any of the first `rows` sees.
    static int64_t panels_seen(const VisibleKeys& sight, int64_t rows, int64_t first_key) {
        const int64_t seen = sight.of(rows - 1) - first_key;
        return seen <= 0 ? 0 : parts(least(seen, kTileKeys), kLanes);
    }

    static Pairs pairs_at(const Pairs& pairs, int64_t panel, int64_t row) {
        const int64_t at = panel * pairs.stride + row * kLanes;
        return {pairs.p + at, pairs.ds + at, pairs.stride};
    }

    static void pack_rows(const GradientRows& block, const Workspace& w, int64_t first) {
        pack(block.q, block.rows, first, block.dim, kSegmentRows, w.qt);
        pack(block.dout, block.rows, first, block.dim, kSegmentRows, w.doutt);
    }

    // P and dS of all rows and a tile of keys, as far as any row of a segment sees it. A row of a later segment may see
    // more keys: dS is +0 for those pairs, so that dQ may take rows of several segments together.
    static void form_pairs(const GradientRows& block, const Workspace& w, int64_t first_key) {
        const int64_t dim = block.dim;
        const int64_t keys = least(block.keys - first_key, kTileKeys);
        const Pairs tile = pairs_at(block.pairs, first_key / kLanes, 0);
        const auto each_segment = [&](auto work) {
            for (int64_t row = 0; row < block.rows; row += kSegmentRows) {
                const int64_t rows = least(block.rows - row, kSegmentRows);
                work(row, rows, panels_seen(block.sight.from(row), rows, first_key));
            }
        };
        for (int64_t t = 0; t < dim; t += kGradientColumns) {
            const int64_t columns = columns_from(t, dim);
            if (dim > kGradientColumns) pack_rows(block, w, t);
            pack(block.k + first_key * dim, keys, t, dim, kLanes, w.kt);
            pack(block.v + first_key * dim, keys, t, dim, kLanes, w.vt);
            each_segment([&](int64_t row, int64_t rows, int64_t panels) {
                for (int64_t panel = 0; panel < panels; ++panel) {
                    const Pairs to = pairs_at(tile, panel, row);
                    take_dots(w.kt + panel * kLanes * columns, w.qt + row * columns, rows, columns, t == 0, to.p);
                    take_dots(w.vt + panel * kLanes * columns, w.doutt + row * columns, rows, columns, t == 0, to.ds);
                    if (t + columns == dim) weigh_seen(block, w, row, rows, first_key + panel * kLanes, to);
                }
            });
        }
        const int64_t most_panels = panels_seen(block.sight, block.rows, first_key);
        each_segment([&](int64_t row, int64_t rows, int64_t panels) {
            for (int64_t panel = panels; panel < most_panels; ++panel)
                Forward::clear(pairs_at(tile, panel, row).ds, rows * kLanes);
        });
    }

    static void weigh_seen(const GradientRows& block, const Workspace& w, int64_t row, int64_t rows, int64_t first_key,
                           const Pairs& pairs) {
        const VisibleKeys sight = block.sight.from(row);
        weigh(w.rows + row, w.D + row, rows, block.scale, pairs.p, pairs.ds);
        if (sight.of(0) >= first_key + kLanes) return;
        hide(sight, rows, first_key, pairs.p);
        hide(sight, rows, first_key, pairs.ds);
    }

    // ---- dQ

    // A segment of a sum, in the columns of `rows`; `factors` has a row for each of them.
    static __attribute__((noinline)) void add_segment(const float* factors, const Wide& rows, int64_t depth,
                                                      int64_t padded, float* group) {
        for (int64_t x = 0; x < padded; x += V::kColumns)
            Forward::panel(factors, rows.at + x, rows.stride, depth, typename Forward::Zero{},
                           typename Forward::AddTo{group + x * kLanes});
    }

    // Adds a tile of keys to the columns from x on, its last segment first.
    static void add_to_dq(const GradientRows& block, const Workspace& w, int64_t first_key, int64_t x) {
        const int64_t keys = least(block.keys - first_key, kTileKeys);
        const Wide k = wide_rows(block.k + first_key * block.dim, keys, x, block.dim, w.k);
        const int64_t padded = padded_from(x, block.dim);
        for (int64_t row = 0; row < block.rows; row += kLanes) {
            const int64_t rows = least(block.rows - row, kLanes);
            const int64_t seen = least(block.sight.from(row).of(rows - 1) - first_key, keys);
            for (int64_t panel = 0; panel * kLanes < seen; ++panel)
                Forward::pack_transposed(pairs_at(block.pairs, first_key / kLanes + panel, row).ds, rows, kLanes,
                                         kLanes, w.dst + panel * kLanes * kLanes, kLanes);
            float* const group = w.group + row * padded;
            for (int64_t key = kTileKeys - kSegmentRows; key >= 0; key -= kSegmentRows) {
                if (key >= seen) continue;
                add_segment(w.dst + key * kLanes, {k.at + key * k.stride, k.stride}, least(seen - key, kSegmentRows),
                            padded, group);
                if ((first_key + key) % kGroupRows == 0) close_into(w.total + row * padded, group, padded * kLanes);
            }
        }
    }

    static void store_dq(const GradientRows& block, const Workspace& w, int64_t first) {
        const int64_t padded = padded_from(first, block.dim);
        for (int64_t row = 0; row < block.rows; ++row) {
            const float* const total = w.total + row / kLanes * kLanes * padded + row % kLanes;
            for (int64_t x = 0; x < columns_from(first, block.dim); ++x)
                block.dq[row * block.dim + first + x] = scaled_gradient(total[x * kLanes], block.gradient_scale);
        }
    }

    // ---- A block of rows

    // Loads what forward left of the rows, and computes D. The transposed O uses the memory of the keys.
    static void start_rows(const GradientRows& block, const Workspace& w) {
        for (int64_t row = 0; row < block.rows; ++row) {
            const Reference reference = reference_of(block.statistics[row], block.scale);
            w.rows[row] = {reference.origin, reference.floor, reference.bias, inverse_of(block.statistics[row])};
        }
        Forward::clear(w.D, parts(block.rows, kSegmentRows) * kSegmentRows);
        for (int64_t t = 0; t < block.dim; t += kGradientColumns) {
            const int64_t columns = columns_from(t, block.dim);
            pack_rows(block, w, t);
            pack(block.dq, block.rows, t, block.dim, kSegmentRows, w.kt);
            for (int64_t row = 0; row < block.rows; row += V::kWidth) {
                const int64_t segment = row / kSegmentRows * kSegmentRows;
                const int64_t at = segment * columns + (row - segment);
                add_dots(w.doutt + at, w.kt + at, columns, w.D + row);
            }
        }
    }

    // D of kWidth rows, in the packed columns.
    static void add_dots(const float* a, const float* b, int64_t columns, float* to) {
        for (int64_t first = 0; first < columns; first += kScoreColumns) {
            V chain(0.0f);
            for (int64_t t = first; t < least(first + kScoreColumns, columns); ++t)
                chain = fused(V::load(a + t * kSegmentRows), V::load(b + t * kSegmentRows), chain);
            (V::load(to) + chain).store(to);
        }
    }

    // The pairs are formed with the first columns of dQ, and are in memory for the other columns.
    static void take_rows(const GradientRows& block, float* workspace) {
        const Workspace w(workspace, block.rows, block.dim);
        start_rows(block, w);
        const int64_t seen = block.sight.of(block.rows - 1);
        if (!block.sums) {
            for (int64_t key = 0; key < seen; key += kTileKeys) form_pairs(block, w, key);
            return;
        }
        for (int64_t x = 0; x < block.dim; x += kGradientColumns) {
            const int64_t sums = parts(block.rows, kLanes) * kLanes * padded_from(x, block.dim);
            Forward::clear(w.group, sums);
            Forward::clear(w.total, sums);
            for (int64_t key = (parts(seen, kTileKeys) - 1) * kTileKeys; key >= 0; key -= kTileKeys) {
                if (x == 0) form_pairs(block, w, key);
                add_to_dq(block, w, key, x);
            }
            store_dq(block, w, x);
        }
    }

    // ---- dK and dV

    // The sums of a panel of keys, [columns, padded][kLanes] each.
    struct Sums {
        float* group;
        float* total; // of a head
        float* all;   // of all heads
    };
    static constexpr int64_t kSums = 3;

    // The sums of dK or of dV.
    static Sums sums_of(const GradientKeys& block, int64_t panel, bool of_values) {
        const int64_t one = padded_from(block.first_column, block.dim) * kLanes;
        float* const at = block.sums + (panel * 2 + (of_values ? 1 : 0)) * kSums * one;
        return {at, at + one, at + 2 * one};
    }

    static size_t sum_floats(int64_t dim) {
        return static_cast<size_t>(2 * kSums * kGradientKeys * padded_from(0, dim));
    }

    // Adds a segment of queries to the panels that it sees.
    static void add_to_keys(const GradientKeys& block, int64_t row, float* workspace) {
        const int64_t rows = least(block.rows - row, kSegmentRows);
        const int64_t seen = least(block.sight.from(row).of(rows - 1) - block.first_key, block.keys);
        if (seen <= 0) return;
        const int64_t x = block.first_column;
        const int64_t padded = padded_from(x, block.dim);
        const Wide q = wide_rows(block.q + row * block.dim, rows, x, block.dim, workspace);
        const Wide dout =
            wide_rows(block.dout + row * block.dim, rows, x, block.dim, workspace + kSegmentRows * padded);
        for (int64_t panel = 0; panel * kLanes < seen; ++panel) {
            const Pairs pairs = pairs_at(block.pairs, panel, row);
            add_segment(pairs.ds, q, rows, padded, sums_of(block, panel, false).group);
            add_segment(pairs.p, dout, rows, padded, sums_of(block, panel, true).group);
        }
    }

    static void take_keys(const GradientKeys& block, float* workspace) {
        const int64_t one = padded_from(block.first_column, block.dim) * kLanes;
        const int64_t panels = parts(block.keys, kLanes);
        const auto each_sum = [&](auto work) {
            for (int64_t panel = 0; panel < panels; ++panel) {
                work(sums_of(block, panel, false));
                work(sums_of(block, panel, true));
            }
        };
        if (block.starts) Forward::clear(block.sums, panels * 2 * kSums * one);
        for (int64_t row = 0; row < block.rows; row += kSegmentRows) {
            add_to_keys(block, row, workspace);
            if ((block.first_row + row + kSegmentRows) % kGroupRows == 0)
                each_sum([&](const Sums& sums) { close_into(sums.total, sums.group, one); });
        }
        if (!block.ends_head) return;
        each_sum([&](const Sums& sums) {
            close_into(sums.total, sums.group, one);
            close_into(sums.all, sums.total, one);
        });
        if (block.ends) store_keys(block);
    }

    static void store_keys(const GradientKeys& block) {
        const int64_t columns = columns_from(block.first_column, block.dim);
        for (int64_t key = 0; key < block.keys; ++key) {
            const float* const dk = sums_of(block, key / kLanes, false).all + key % kLanes;
            const float* const dv = sums_of(block, key / kLanes, true).all + key % kLanes;
            const int64_t to = key * block.dim + block.first_column;
            for (int64_t x = 0; x < columns; ++x) {
                block.dk[to + x] = scaled_gradient(dk[x * kLanes], block.gradient_scale);
                block.dv[to + x] = value_gradient(dv[x * kLanes]);
            }
        }
    }

    static constexpr BackwardKernel steps(const BlockKernel& forward) {
        return {.forward = &forward,
                .panel_keys = kLanes,
                .workspace_floats = workspace_floats,
                .sum_floats = sum_floats,
                .take_rows = take_rows,
                .take_keys = take_keys};
    }
};

} // namespace hw4::cpu
