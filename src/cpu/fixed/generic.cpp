// The contracts "fixed" and "fixed16" on any processor, in plain C++. Scores and weighted values are the same sum of
// products of digits, over columns and over keys, so V is stored transposed and one loop computes both. Digits have 16
// bits, which every vector unit can multiply and add in pairs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/contracts/fixed/rules.h"
#include "src/contracts/fma_clones.h"
#include "src/cpu/block_kernel.h"

namespace hw4::cpu {
namespace {

using namespace fixed;

constexpr int64_t kBlockRows = 32; // rows that share a tile of keys while it is in the cache
constexpr size_t kLine = 64;

constexpr size_t in_lines(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

float largest_of(const float* x, size_t count) {
    float largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
    return largest;
}

struct TileExponents {
    int32_t k;
    int32_t v;
};

// The state of a row from tile to tile, besides its outputs.
struct Row {
    float reference;
    float l[kLanes];
    float h;
    int32_t q_exponent;
};

HW4_INLINE void rescale(float alpha, Row& row, float* o, int64_t dim) {
    for (float& l : row.l) l *= alpha;
    row.h *= alpha;
    for (int64_t x = 0; x < dim; ++x) o[x] *= alpha;
}

template <class Rules>
struct Generic {
    static constexpr int kDigits = Rules::kDigits;
    static constexpr int kTileKeys = Rules::kTileKeys;
    using Unit = typename Rules::Unit;
    using Top = typename Rules::Top;

    // ---- The prepared keys of a batch: the exponents of its tiles, then each tile's digits of K and V.

    static size_t tile_count(int64_t keys) { return static_cast<size_t>((keys + kTileKeys - 1) / kTileKeys); }
    static size_t matrix_digits(int64_t dim) { return static_cast<size_t>(kTileKeys * dim); } // of one place
    static size_t tile_digits(int64_t dim) { return size_t{2} * kDigits * matrix_digits(dim); }

    static size_t prepared_bytes(int64_t keys, int64_t dim) {
        const size_t tiles = tile_count(keys);
        return in_lines(tiles * sizeof(TileExponents)) + tiles * tile_digits(dim) * sizeof(int16_t);
    }

    static size_t digits_offset(size_t tile, int64_t keys, int64_t dim) {
        return in_lines(tile_count(keys) * sizeof(TileExponents)) + tile * tile_digits(dim) * sizeof(int16_t);
    }

    // A number's digits, highest first, `plane` apart.
    static HW4_INLINE void store_digits(float x, Factors scale, int16_t* to, size_t plane) {
        const uint32_t bytes = Rules::Numbers::digit_bytes(quantised(x, scale));
        for (int place = 0; place < kDigits; ++place)
            to[static_cast<size_t>(kDigits - 1 - place) * plane] = static_cast<int16_t>(digit(bytes, place));
    }

    static HW4_FMA_CLONES void prepare_tile(const KeyTiles& tiles, int64_t first_key, TileExponents& exponents,
                                            int16_t* digits) {
        const int64_t dim = tiles.dim;
        const int64_t keys = std::min<int64_t>(kTileKeys, tiles.keys - first_key);
        const size_t plane = matrix_digits(dim);
        const auto count = static_cast<size_t>(keys * dim);
        float room[kTileKeys * kMostColumns];
        std::fill(digits, digits + tile_digits(dim), int16_t{0}); // keys that do not exist
        const float* const k = as_floats(tiles.element, tiles.k, first_key * dim, keys * dim, room);
        exponents.k = exponent_of_tile<kDigits>(largest_of(k, count));
        const Factors k_scale = tile_factors(exponents.k);
        for (size_t i = 0; i < count; ++i) store_digits(k[i], k_scale, digits + i, plane);
        const float* const v = as_floats(tiles.element, tiles.v, first_key * dim, keys * dim, room);
        exponents.v = exponent_of_tile<kDigits>(largest_of(v, count));
        const Factors v_scale = tile_factors(exponents.v);
        int16_t* transposed = digits + kDigits * plane;
        for (int64_t j = 0; j < keys; ++j)
            for (int64_t x = 0; x < dim; ++x)
                store_digits(v[j * dim + x], v_scale, transposed + x * kTileKeys + j, plane);
    }

    static void prepare(const KeyTiles& tiles, void* prepared) {
        auto* exponents = static_cast<TileExponents*>(prepared);
        for (int64_t tile = tiles.first; tile < tiles.end; ++tile) {
            const auto index = static_cast<size_t>(tile);
            void* digits = static_cast<char*>(prepared) + digits_offset(index, tiles.keys, tiles.dim);
            prepare_tile(tiles, tile * kTileKeys, exponents[index], static_cast<int16_t*>(digits));
        }
    }

    // ---- Rows

    static size_t workspace_floats(int64_t rows, int64_t dim) {
        const auto count = static_cast<size_t>(rows);
        const size_t columns = count * static_cast<size_t>(dim);
        const size_t bytes = count * sizeof(Row) + columns * sizeof(float) + kDigits * columns * sizeof(int16_t);
        return (bytes + sizeof(float) - 1) / sizeof(float);
    }

    struct Workspace {
        Row* rows;
        float* o;   // [rows][dim]
        int16_t* q; // [rows][digit][dim]

        Workspace(float* memory, int64_t count, int64_t dim)
            : rows(reinterpret_cast<Row*>(memory)), o(reinterpret_cast<float*>(rows + count)),
              q(reinterpret_cast<int16_t*>(o + count * dim)) {}
    };

    // The least exponents of all tiles.
    static TileExponents least_exponents(const TileExponents* exponents, size_t tiles) {
        TileExponents least = exponents[0];
        for (size_t tile = 1; tile < tiles; ++tile)
            least = {std::min(least.k, exponents[tile].k), std::min(least.v, exponents[tile].v)};
        return least;
    }

    static HW4_FMA_CLONES void start_row(const RowBlock& block, int64_t index, int least_k_exponent, Row& row, float* o,
                                         int16_t* digits) {
        const auto columns = static_cast<size_t>(block.dim);
        const float factor = query_factor(block.scale.c);
        float scaled[kMostColumns] = {};
        const float* const q = as_floats(block.element, block.q, index * block.dim, block.dim, scaled);
        for (size_t t = 0; t < columns; ++t) scaled[t] = scaled_query(q[t], factor);
        row = {-std::numeric_limits<float>::infinity(),
               {},
               0.0f,
               Rules::row_exponent(largest_of(scaled, columns), least_k_exponent)};
        std::fill(o, o + columns, 0.0f);
        const Factors scale = factors(row.q_exponent);
        for (size_t t = 0; t < columns; ++t) store_digits(scaled[t], scale, digits + t, columns);
    }

    // combined() of the summed products of two rows of numbers; the digits of each row are a plane apart.
    static HW4_INLINE int32_t sum_of_products(const int16_t* a, size_t a_plane, const int16_t* b, size_t b_plane,
                                              size_t count) {
        int32_t high_high = 0;
        int32_t high_next = 0;
        int32_t next_high = 0;
        int32_t high_low = 0;
        int32_t next_next = 0;
        int32_t low_high = 0;
        for (size_t i = 0; i < count; ++i) { // separate sums, so that compilers recognise dot products
            high_high += a[i] * b[i];
            high_next += a[i] * b[b_plane + i];
            next_high += a[a_plane + i] * b[i];
            if constexpr (kDigits == 3) {
                high_low += a[i] * b[2 * b_plane + i];
                next_next += a[a_plane + i] * b[b_plane + i];
                low_high += a[2 * a_plane + i] * b[i];
            }
        }
        if constexpr (kDigits == 3)
            return Rules::combined({high_high, high_next + next_high, high_low + next_next + low_high});
        else
            return Rules::combined({high_high, high_next + next_high});
    }

    struct Weights {
        int16_t digits[kDigits][kTileKeys]; // highest first
        int32_t sums[kLanes];
    };

    static HW4_INLINE Weights weigh(const int32_t* x, int keys, Top top, Unit unit) {
        Weights weights = {};
        for (int j = 0; j < keys; ++j) {
            const int32_t weight = Rules::weight_of(x[j], top, unit);
            for (int place = 0; place < kDigits; ++place)
                weights.digits[kDigits - 1 - place][j] = static_cast<int16_t>(weight_digit(weight, place));
            weights.sums[lane_of(j)] += weight;
        }
        return weights;
    }

    struct Tile {
        const int16_t* digits;
        TileExponents exponents;
        int keys; // that the row sees
    };

    // One row against one tile.
    static HW4_FMA_CLONES void attend_tile(Row& row, const int16_t* q, float* o, const Tile& tile, int64_t dim,
                                           int least_v_exponent) {
        const size_t plane = matrix_digits(dim);
        const auto columns = static_cast<size_t>(dim);
        const Unit unit = Rules::unit_of(row.q_exponent, tile.exponents.k);
        int32_t x[kTileKeys] = {};
        for (int j = 0; j < tile.keys; ++j)
            x[j] = sum_of_products(q, columns, tile.digits + j * dim, plane, columns) >> unit.cut;
        const Top top = Rules::top_of(*std::max_element(x, x + tile.keys), unit);
        const float m = Rules::reference_of(top, unit);
        const Weights p = weigh(x, tile.keys, top, unit);
        if (Rules::raises(m, row.reference)) {
            rescale(Rules::rescale(row.reference - m), row, o, dim);
            row.reference = m;
        }

        const TileWeights weights = Rules::tile_weights(top, m - row.reference, least_v_exponent - tile.exponents.v);
        row.h += weights.values;
        for (int i = 0; i < kLanes; ++i) row.l[i] = fused(static_cast<float>(p.sums[i]), weights.sums, row.l[i]);
        const int16_t* v = tile.digits + kDigits * plane;
        for (int64_t column = 0; column < dim; ++column) {
            const int32_t y = sum_of_products(p.digits[0], kTileKeys, v + column * kTileKeys, plane, kTileKeys);
            o[column] = fused(static_cast<float>(y), weights.values, o[column]);
        }
    }

    static void attend(const RowBlock& block, float* workspace) {
        const Workspace w(workspace, block.rows, block.dim);
        const auto* exponents = static_cast<const TileExponents*>(block.prepared);
        const TileExponents least = least_exponents(exponents, tile_count(block.keys));
        for (int64_t i = 0; i < block.rows; ++i)
            start_row(block, i, least.k, w.rows[i], w.o + i * block.dim, w.q + i * kDigits * block.dim);
        for (size_t index = 0; index < tile_count(block.sees(block.rows - 1)); ++index) {
            const void* digits = static_cast<const char*>(block.prepared) + digits_offset(index, block.keys, block.dim);
            for (int64_t i = 0; i < block.rows; ++i) {
                const int64_t seen = block.sees(i) - static_cast<int64_t>(index) * kTileKeys;
                if (seen <= 0) continue;
                const Tile tile = {static_cast<const int16_t*>(digits), exponents[index],
                                   static_cast<int>(std::min<int64_t>(kTileKeys, seen))};
                attend_tile(w.rows[i], w.q + i * kDigits * block.dim, w.o + i * block.dim, tile, block.dim, least.v);
            }
        }
        const Factors scale = result_factors(Rules::kUnitBits - least.v);
        for (int64_t i = 0; i < block.rows; ++i) {
            const float l = sum_of_lanes(w.rows[i].l);
            if (block.statistics != nullptr) block.statistics[i] = {w.rows[i].reference, 0.0f, l};
            const float inverse = 1.0f / l;
            float* const o = w.o + i * block.dim;
            for (int64_t x = 0; x < block.dim; ++x) o[x] = fixed_result(o[x], w.rows[i].h, inverse, scale);
            const size_t bytes = static_cast<size_t>(i * block.dim) * bytes_of(block.element);
            narrow(block.element, o, static_cast<size_t>(block.dim), static_cast<unsigned char*>(block.out) + bytes);
        }
    }

    static constexpr BlockKernel blocks() {
        return {.supported = [] { return true; },
                .block_rows = kBlockRows,
                .workspace_floats = workspace_floats,
                .attend = attend,
                .elements = kEveryElement,
                .prepared_keys = kTileKeys,
                .prepared_bytes = prepared_bytes,
                .prepare = prepare};
    }
};

} // namespace

constexpr BlockKernel kFixedGeneric = Generic<FixedRules>::blocks();
constexpr BlockKernel kFixed16Generic = Generic<Fixed16Rules>::blocks();

} // namespace hw4::cpu
