// Backward attention in two steps, which threads take by blocks: first P and dS of some query rows and all keys, and
// their dQ; then dK and dV of some keys, from the P and dS that the first step left in memory. One algorithm, compiled
// once for each kind of vector unit, like forward (block_kernel.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/contracts/f32/backward.h"
#include "src/cpu/block_kernel.h"

namespace hw4::cpu {

// For rows of one head of queries, counted from 0: the first row sees `first_sees` keys, under the causal mask possibly
// fewer than 0, and each row sees one more than the row before.
struct VisibleKeys {
    int64_t first_sees = 0;
    int64_t keys = 0;

    HW4_INLINE int64_t of(int64_t row) const {
        const int64_t seen = first_sees + row;
        return seen < 0 ? 0 : seen < keys ? seen : keys;
    }
    HW4_INLINE VisibleKeys from(int64_t row) const { return {first_sees + row, keys}; }
};

// P and dS of some query rows: [row][key of the panel] for each panel of keys, panels `stride` floats apart. For keys
// and rows that do not exist or are masked, both are 0; or the panel is left out, if not even the last row of a segment
// sees its first key. There is room for a multiple of kPairRows rows.
struct Pairs {
    float* p = nullptr;
    float* ds = nullptr;
    int64_t stride = 0;
};

// Rows of one head of queries, whole segments but for the last.
struct GradientRows {
    const float* q = nullptr;    // [rows][dim], the block's first row
    const float* dout = nullptr; // [rows][dim], the same rows
    const float* k = nullptr;    // [keys][dim]
    const float* v = nullptr;    // [keys][dim]
    float* dq = nullptr;         // [rows][dim]; first holds forward's O, and keeps it without `sums`
    const RowStatistics* statistics = nullptr;
    int64_t rows = 0; // <= kGradientRows
    int64_t keys = 0;
    int64_t dim = 0;
    Scale scale{};
    float gradient_scale = 0;
    VisibleKeys sight{};
    Pairs pairs{};    // from the block's first row on
    bool sums = true; // false: only the pairs are wanted
};

// Some keys of one head of keys and values in some columns, and rows of one head of queries with pairs in memory.
struct GradientKeys {
    const float* q = nullptr;    // [rows][dim], the first of these rows
    const float* dout = nullptr; // [rows][dim], the same rows
    float* dk = nullptr;         // [keys][dim], the first of these keys
    float* dv = nullptr;
    int64_t first_row = 0; // of these rows in their head; a multiple of a segment
    int64_t rows = 0;
    int64_t first_key = 0;    // a multiple of a panel
    int64_t keys = 0;         // <= kGradientKeys
    int64_t first_column = 0; // a multiple of kGradientColumns; the block has at most as many columns
    int64_t dim = 0;
    float gradient_scale = 0;
    VisibleKeys sight{};
    Pairs pairs{};         // from the first of these keys on
    float* sums = nullptr; // of these keys and columns, kept between calls for the same ones
    bool starts = false;   // the first rows: nothing is in `sums` yet
    bool ends_head = false;
    bool ends = false; // the last rows: dK and dV are written
};

constexpr int64_t kPairRows = 8;
constexpr int64_t kGradientRows = 192;    // three segments; every panel's width divides it
constexpr int64_t kGradientKeys = 48;     // every panel's width divides this, too
constexpr int64_t kGradientColumns = 256; // packed and summed at a time, so that they stay in the cache

struct BackwardKernel {
    const BlockKernel* forward = nullptr; // of the same vector unit
    int64_t panel_keys = 0;               // contiguous in Pairs
    // Floats of the workspace of either step, which is aligned to 64 bytes and may have any content.
    size_t (*workspace_floats)(int64_t rows, int64_t dim) = nullptr;
    size_t (*sum_floats)(int64_t dim) = nullptr; // of GradientKeys::sums, also aligned
    void (*take_rows)(const GradientRows& block, float* workspace) = nullptr;
    void (*take_keys)(const GradientKeys& block, float* workspace) = nullptr;
};

// One a file of f32/.
extern const BackwardKernel kF32GenericBackward, kF32NeonBackward, kF32Avx2Backward, kF32Avx512Backward;

} // namespace hw4::cpu
