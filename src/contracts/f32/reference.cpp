// The contract "f32" as one thread with plain loops, in the order src/contracts/f32/forward.h states it.
#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "src/contracts/contract.h"
#include "src/contracts/f32/forward.h"
#include "src/contracts/fma_clones.h"

namespace hw4 {
namespace {

constexpr int kQueryBlock = 32; // rows that share a pass over the keys; changes speed, never bytes

// What a query row carries from key tile to key tile.
struct Row {
    Reference reference = empty_reference();       // of the running sums
    Reference total_reference = empty_reference(); // of the totals
    float lanes[kSumLanes] = {};                   // running sums of weights
    std::vector<float> o;                          // [d] running sums of weight * value
    std::vector<float> total;                      // [d] of the earlier segments
    explicit Row(int64_t d) : o(static_cast<size_t>(d)), total(static_cast<size_t>(d)) {}
};

// K [N][d] as tiles of 32 keys, each transposed: [tile][t][key], missing keys zero. The score loop reads contiguous
// memory.
std::vector<float> transpose_in_tiles(const float* k, int64_t n, int64_t d) {
    std::vector<float> kt(static_cast<size_t>((n + kKeyTile - 1) / kKeyTile * kKeyTile * d));
    for (int64_t j = 0; j < n; ++j)
        for (int64_t t = 0; t < d; ++t)
            kt[static_cast<size_t>((j / kKeyTile * d + t) * kKeyTile + j % kKeyTile)] = k[j * d + t];
    return kt;
}

// One row against one tile. The row sees the keys from `first` on and before `end`, at least one.
HW4_FMA_CLONES void attend_tile(Row& row, const float* q, const float* kt, const float* v, int first, int end,
                                int64_t d, Scale scale) {
    float s[kKeyTile] = {};
    for (int64_t column = 0; column < d; column += kScoreColumns) {
        float block[kKeyTile] = {};
        for (int64_t t = column; t < std::min(column + kScoreColumns, d); ++t)
            for (int j = 0; j < kKeyTile; ++j) block[j] = fused(q[t], kt[t * kKeyTile + j], block[j]);
        for (int j = 0; j < kKeyTile; ++j) s[j] += block[j];
    }

    const float tile_max = *std::max_element(s + first, s + end);
    if (!row.reference.covers(tile_max)) {
        const Reference raised = reference_at(tile_max, scale);
        const float alpha = rescale_factor(row.reference, raised, scale);
        for (float& lane : row.lanes) lane *= alpha;
        for (float& o : row.o) o *= alpha;
        row.reference = raised;
    }

    float p[kKeyTile];
    for (int j = 0; j < kKeyTile; ++j) p[j] = row.reference.weight(s[j], scale);
    std::fill(p, p + first, 0.0f);
    std::fill(p + end, p + kKeyTile, 0.0f);
    for (ptrdiff_t g = 0; g < kSumLanes; ++g) row.lanes[g] += lane_share(p + g * kLaneKeys);
    float* o = row.o.data();
    for (int j = first; j < end; ++j)
        for (int64_t x = 0; x < d; ++x) o[x] = fused(p[j], v[j * d + x], o[x]);
}

// The end of a segment: adds the running output to the totals.
void fold_segment(Row& row, Scale scale) {
    const float alpha = rescale_factor(row.total_reference, row.reference, scale);
    for (size_t x = 0; x < row.o.size(); ++x) row.total[x] = fused(row.total[x], alpha, row.o[x]);
    row.total_reference = row.reference;
    std::fill(row.o.begin(), row.o.end(), 0.0f);
}

// Stores the row's output, and its statistics if they are wanted.
void store_row(const Row& row, float* out, RowStatistics* statistics) {
    const float l = close_lanes(row.lanes);
    const float inv = l > 0 ? 1.0f / l : 0.0f;
    for (const float x : row.total) *out++ = result(x, inv);
    if (statistics != nullptr)
        *statistics = l > 0 ? RowStatistics{row.reference.M, row.reference.origin, l} : RowStatistics{};
}

} // namespace

void f32_forward(const UnitOperands& unit) {
    const auto [q, k, v] = std::tuple(unit.in[0], unit.in[1], unit.in[2]);
    float* out = unit.out[0];
    const int64_t d = unit.dim;
    const Scale scale = scale_for(unit.key_dim(), unit.scale);
    const std::vector<float> kt = transpose_in_tiles(k, unit.keys, d);
    for (int64_t first_row = 0; first_row < unit.queries; first_row += kQueryBlock) {
        std::vector<Row> rows(static_cast<size_t>(std::min<int64_t>(kQueryBlock, unit.queries - first_row)), Row(d));
        for (int64_t j = 0; j < unit.keys; j += kKeyTile) {
            for (size_t i = 0; i < rows.size(); ++i) {
                const int64_t query = first_row + static_cast<int64_t>(i);
                const int64_t n = unit.visible(query);
                const int64_t first = std::max<int64_t>(unit.first_visible(query) - j, 0);
                if (j >= n || first >= kKeyTile) continue;
                const int64_t end = std::min<int64_t>(kKeyTile, n - j);
                attend_tile(rows[i], q + query * d, kt.data() + j * d, v + j * d, static_cast<int>(first),
                            static_cast<int>(end), d, scale);
                if ((j + kKeyTile) % kSegmentKeys == 0 || j + kKeyTile >= n) fold_segment(rows[i], scale);
            }
        }
        for (size_t i = 0; i < rows.size(); ++i) {
            const int64_t query = first_row + static_cast<int64_t>(i);
            store_row(rows[i], out + query * d, unit.statistics_of(query));
        }
    }
}

} // namespace hw4
