// The contract "fixed" as one thread with plain loops, in the order src/contracts/fixed/forward.h states it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "src/contracts/fixed/forward.h"
#include "src/contracts/fma_clones.h"
#include "src/contracts/reference.h"

namespace hw4 {
namespace {

using namespace fixed;

constexpr int kQueryBlock = 32; // rows that share a pass over the keys; changes speed, never bytes

// Numbers of one group, [rows][d], as digits.
struct Digits {
    int exponent = 0;
    std::vector<int8_t> high, middle, low;
};

float largest_of(const float* x, size_t count) {
    float largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
    return largest;
}

Digits digits_of(const float* x, size_t count, int exponent, Factors scale) {
    Digits digits{exponent, std::vector<int8_t>(count), std::vector<int8_t>(count), std::vector<int8_t>(count)};
    for (size_t i = 0; i < count; ++i) {
        const uint32_t bytes = digit_bytes(quantised(x[i], scale));
        digits.high[i] = static_cast<int8_t>(digit(bytes, 2));
        digits.middle[i] = static_cast<int8_t>(digit(bytes, 1));
        digits.low[i] = static_cast<int8_t>(digit(bytes, 0));
    }
    return digits;
}

std::vector<Digits> digits_in_tiles(const float* x, int64_t n, int64_t d) {
    std::vector<Digits> tiles;
    for (int64_t j = 0; j < n; j += kTileKeys) {
        const auto count = static_cast<size_t>(std::min<int64_t>(kTileKeys, n - j) * d);
        const int exponent = tile_exponent(largest_of(x + j * d, count));
        tiles.push_back(digits_of(x + j * d, count, exponent, tile_factors(exponent)));
    }
    return tiles;
}

int least_exponent(const std::vector<Digits>& tiles) {
    int least = std::numeric_limits<int>::max();
    for (const Digits& tile : tiles) least = std::min(least, tile.exponent);
    return least;
}

// What one query row carries from tile to tile.
struct Row {
    Digits q;
    float reference;
    float l[kLanes];
    float h;
    std::vector<float> o;
};

Row start_row(const float* q, int64_t d, float factor) {
    std::vector<float> row(q, q + d);
    for (float& x : row) x = scaled_query(x, factor);
    const int exponent = exponent_for(largest_of(row.data(), row.size()));
    return {digits_of(row.data(), row.size(), exponent, factors(exponent)),
            -std::numeric_limits<float>::infinity(),
            {},
            0,
            std::vector<float>(static_cast<size_t>(d))};
}

int32_t score(const Digits& q, const Digits& k, int64_t key, int64_t d) {
    const int8_t* high = k.high.data() + key * d;
    const int8_t* middle = k.middle.data() + key * d;
    const int8_t* low = k.low.data() + key * d;
    int32_t l0 = 0;
    int32_t l1 = 0;
    int32_t l2 = 0;
    for (int64_t t = 0; t < d; ++t) {
        const auto i = static_cast<size_t>(t);
        l0 += q.high[i] * high[t];
        l1 += q.high[i] * middle[t] + q.middle[i] * high[t];
        l2 += q.high[i] * low[t] + q.middle[i] * middle[t] + q.low[i] * high[t];
    }
    return combined(l0, l1, l2);
}

// y of every column, from the weights of the tile's keys.
void weighted_values(const int32_t* p, const Digits& v, int keys, int64_t d, int32_t* y) {
    std::vector<int32_t> sums(static_cast<size_t>(3 * d));
    int32_t* l0 = sums.data();
    int32_t* l1 = l0 + d;
    int32_t* l2 = l1 + d;
    for (int j = 0; j < keys; ++j)
        for (int64_t x = 0; x < d; ++x) {
            const auto i = static_cast<size_t>(j * d + x);
            const int high = weight_digit(p[j], 2);
            const int middle = weight_digit(p[j], 1);
            l0[x] += high * v.high[i];
            l1[x] += high * v.middle[i] + middle * v.high[i];
            l2[x] += high * v.low[i] + middle * v.middle[i] + weight_digit(p[j], 0) * v.high[i];
        }
    for (int64_t x = 0; x < d; ++x) y[x] = combined(l0[x], l1[x], l2[x]);
}

// One row against one tile, of which it sees the first `keys`, at least one.
HW4_FMA_CLONES void attend_tile(Row& row, const Digits& k, const Digits& v, int keys, int64_t d, int least_v_exponent) {
    int32_t x[kTileKeys] = {};
    for (int j = 0; j < keys; ++j) x[j] = score(row.q, k, j, d);

    const Unit unit = unit_of(row.q.exponent, k.exponent);
    for (int j = 0; j < keys; ++j) x[j] >>= unit.cut;
    const TileTop top = tile_top(*std::max_element(x, x + keys), unit);
    const float M = tile_reference(top, unit);
    int32_t p[kTileKeys];
    int32_t sums[kLanes] = {};
    for (int j = 0; j < keys; ++j) {
        p[j] = weight_of(x[j], top, unit);
        sums[lane_of(j)] += p[j];
    }
    std::vector<int32_t> y(static_cast<size_t>(d));
    weighted_values(p, v, keys, d, y.data());

    if (raises(M, row.reference)) {
        const float alpha = power_of_two(row.reference - M);
        for (float& l : row.l) l *= alpha;
        row.h *= alpha;
        for (float& o : row.o) o *= alpha;
        row.reference = M;
    }
    const float lead = M - row.reference;
    const float part = quarter_power(top.quarters);
    const float o_weight = part * power_of_two(lead + static_cast<float>(least_v_exponent - v.exponent));
    row.h += o_weight;
    const float l_weight = part * power_of_two(lead);
    for (int i = 0; i < kLanes; ++i) row.l[i] = fused(static_cast<float>(sums[i]), l_weight, row.l[i]);
    for (size_t i = 0; i < row.o.size(); ++i) row.o[i] = fused(static_cast<float>(y[i]), o_weight, row.o[i]);
}

// Its output, and its statistics where they are asked for.
void store_row(const Row& row, Factors scale, float* out, RowStatistics* statistics) {
    const float l = sum_of_lanes(row.l);
    const float inverse = l > 0 ? 1.0f / l : 0.0f;
    for (const float o : row.o) *out++ = fixed_result(o, row.h, inverse, scale);
    if (statistics != nullptr) *statistics = l > 0 ? RowStatistics{row.reference, 0, l} : RowStatistics{};
}

} // namespace

void fixed_forward(const UnitOperands& unit) {
    const auto [q, k, v] = std::tuple(unit.in[0], unit.in[1], unit.in[2]);
    float* out = unit.out[0];
    const int64_t d = unit.dim;
    const float factor = query_factor(scale_for(d).c);
    const std::vector<Digits> k_tiles = digits_in_tiles(k, unit.keys, d);
    const std::vector<Digits> v_tiles = digits_in_tiles(v, unit.keys, d);
    const int least_v_exponent = least_exponent(v_tiles);
    const Factors result_scale = result_factors(24 - least_v_exponent);
    for (int64_t first_row = 0; first_row < unit.queries; first_row += kQueryBlock) {
        std::vector<Row> rows;
        for (int64_t i = first_row; i < std::min(first_row + kQueryBlock, unit.queries); ++i)
            rows.push_back(start_row(q + i * d, d, factor));
        for (size_t tile = 0; tile < k_tiles.size(); ++tile) {
            for (size_t i = 0; i < rows.size(); ++i) {
                const int64_t seen = unit.visible(first_row + static_cast<int64_t>(i));
                const auto keys = std::min<int64_t>(kTileKeys, seen - static_cast<int64_t>(tile) * kTileKeys);
                if (keys > 0)
                    attend_tile(rows[i], k_tiles[tile], v_tiles[tile], static_cast<int>(keys), d, least_v_exponent);
            }
        }
        for (size_t i = 0; i < rows.size(); ++i) {
            const int64_t query = first_row + static_cast<int64_t>(i);
            store_row(rows[i], result_scale, out + query * d, unit.statistics_of(query));
        }
    }
}

} // namespace hw4
