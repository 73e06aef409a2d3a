// The contract "fixed" as one thread with plain loops, in the order src/fixed.h states it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "fixed.h"
#include "fma_clones.h"
#include "sequential.h"

namespace hw4 {
namespace {

using namespace fixed;

constexpr int kQueryBlock = 32; // rows that share a pass over the keys; changes speed, never bytes

// Numbers of one group, [rows][d], as digits.
struct Digits {
    int exponent = 0;
    std::vector<int8_t> high, middle, low;
};

Digits digits_of(const float* x, size_t count) {
    float largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
    Digits digits{exponent_for(largest), std::vector<int8_t>(count), std::vector<int8_t>(count),
                  std::vector<int8_t>(count)};
    const Factors scale = factors(digits.exponent);
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
    for (int64_t j = 0; j < n; j += kTileKeys)
        tiles.push_back(digits_of(x + j * d, static_cast<size_t>(std::min<int64_t>(kTileKeys, n - j) * d)));
    return tiles;
}

int least_exponent(const std::vector<Digits>& tiles) {
    int least = std::numeric_limits<int>::max();
    for (const Digits& tile : tiles) least = std::min(least, tile.exponent);
    return least;
}

Digits scaled_row(const float* q, int64_t d, float c) {
    std::vector<float> row(q, q + d);
    for (float& x : row) x = scaled_query(x, c);
    return digits_of(row.data(), row.size());
}

// What one query row carries from tile to tile.
struct Row {
    Digits q;
    float reference = -std::numeric_limits<float>::infinity();
    float l = 0;
    float h = 0;
    std::vector<float> o;
};

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

// The digits of a weight, or of all weights of a tile.
struct WeightDigits {
    int32_t high, middle, low;
};

WeightDigits weight_digits(uint32_t word) {
    return {static_cast<int32_t>(word >> 16), static_cast<int32_t>(word >> 8 & 255) - 128,
            static_cast<int32_t>(word & 255) - 128};
}

// y of every column, from the weights of the tile's keys.
void weighted_values(const WeightDigits* p, const Digits& v, int keys, int64_t d, int32_t* y) {
    std::vector<int32_t> sums(static_cast<size_t>(3 * d));
    int32_t* l0 = sums.data();
    int32_t* l1 = l0 + d;
    int32_t* l2 = l1 + d;
    for (int j = 0; j < keys; ++j)
        for (int64_t x = 0; x < d; ++x) {
            const auto i = static_cast<size_t>(j * d + x);
            l0[x] += p[j].high * v.high[i];
            l1[x] += p[j].high * v.middle[i] + p[j].middle * v.high[i];
            l2[x] += p[j].high * v.low[i] + p[j].middle * v.middle[i] + p[j].low * v.high[i];
        }
    for (int64_t x = 0; x < d; ++x) y[x] = combined(l0[x], l1[x], l2[x]);
}

// One row against one tile.
HW4_FMA_CLONES void attend_tile(Row& row, const Digits& k, const Digits& v, int keys, int64_t d, int least_v_exponent) {
    int32_t x[kTileKeys] = {};
    for (int j = 0; j < keys; ++j) x[j] = score(row.q, k, j, d);

    const Unit unit = unit_of(row.q.exponent, k.exponent);
    for (int j = 0; j < keys; ++j) x[j] >>= unit.cut;
    const int32_t largest = *std::max_element(x, x + keys);
    const float M = tile_reference(largest, unit);
    WeightDigits p[kTileKeys];
    int32_t sum = 0;
    for (int j = 0; j < keys; ++j) {
        const uint32_t word = weight_word(x[j], largest, unit);
        p[j] = weight_digits(word);
        sum += static_cast<int32_t>(word - kMiddle);
    }
    std::vector<int32_t> y(static_cast<size_t>(d));
    weighted_values(p, v, keys, d, y.data());

    if (raises(M, row.reference)) {
        const float alpha = power_of_two(row.reference - M);
        row.l *= alpha;
        row.h *= alpha;
        for (float& o : row.o) o *= alpha;
        row.reference = M;
    }
    const float lead = M - row.reference;
    const float o_weight = power_of_two(lead + static_cast<float>(least_v_exponent - v.exponent));
    row.h += o_weight;
    row.l = fused(static_cast<float>(sum), power_of_two(lead), row.l);
    for (size_t i = 0; i < row.o.size(); ++i) row.o[i] = fused(static_cast<float>(y[i]), o_weight, row.o[i]);
}

} // namespace

void sequential_fixed_attention(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d) {
    const float c = scale_for(d).c;
    const std::vector<Digits> k_tiles = digits_in_tiles(k, n, d);
    const std::vector<Digits> v_tiles = digits_in_tiles(v, n, d);
    const int least_v_exponent = least_exponent(v_tiles);
    const Factors result_scale = factors(24 - least_v_exponent);
    for (int64_t first_row = 0; first_row < n; first_row += kQueryBlock) {
        std::vector<Row> rows;
        for (int64_t i = first_row; i < std::min(first_row + kQueryBlock, n); ++i) {
            rows.emplace_back();
            rows.back().q = scaled_row(q + i * d, d, c);
            rows.back().o.resize(static_cast<size_t>(d));
        }
        for (size_t tile = 0; tile < k_tiles.size(); ++tile) {
            const auto keys =
                static_cast<int>(std::min<int64_t>(kTileKeys, n - static_cast<int64_t>(tile) * kTileKeys));
            for (Row& row : rows) attend_tile(row, k_tiles[tile], v_tiles[tile], keys, d, least_v_exponent);
        }
        for (const Row& row : rows) {
            const float inverse = 1.0f / row.l;
            for (const float o : row.o) *out++ = fixed_result(o, row.h, inverse, result_scale);
        }
    }
}

} // namespace hw4
