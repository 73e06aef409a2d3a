// New rows of K and V for a cache, with RoPE if asked: hw4_append() for one row, on the host and the GPU.
#pragma once

#include "src/base/float_bits.h"
#include "src/contracts/rope.h"
#include "src/problem/tensor.h"

namespace hw4 {

// The rows of one tensor, and where they go.
struct AppendedRows {
    Tensor from;
    Tensor to;
    int64_t heads = 0;
    bool to_cache = false; // behind the keys that are there; otherwise at their place in `from`
    bool rotated = false;
    int64_t columns = 0;
};

struct Append {
    AppendedRows parts[3]; // K, V, and Q if its heads are rotated
    int64_t batches = 0;
    int64_t tokens = 0;
    int64_t keys = 0;                 // rows of a batch in the cache
    const int32_t* lengths = nullptr; // keys of each batch, after the call
    PageTable pages;
    const float* rope = nullptr; // [position][pair][2], at least `keys` positions, for the columns of K and Q
    bool interleaved = false;

    HW4_INLINE int64_t rows_of(int part) const { return batches * parts[part].heads * tokens; }
    HW4_INLINE int64_t rows() const { return rows_of(0) + rows_of(1) + rows_of(2); }
};

HW4_INLINE float loaded(const uint16_t* at, bool bf16) { return bf16 ? bf16_value(*at) : fp16_value(*at); }
HW4_INLINE float loaded(const float* at, bool) { return *at; }
HW4_INLINE void store_rounded(uint16_t* at, float x, bool bf16) { *at = bf16 ? bf16_bits(x) : fp16_bits(x); }
HW4_INLINE void store_rounded(float* at, float x, bool) { *at = x; }

// The row with this index among all rows of K, V and Q: the pairs first, first + step, ... of its columns / 2 pairs
// of columns (rounded up). T is float, or uint16_t for both 16-bit types.
template <class T>
HW4_INLINE void append_row(const Append& all, int64_t index, int64_t first, int64_t step) {
    int part = 0;
    for (; index >= all.rows_of(part); ++part) index -= all.rows_of(part);
    const AppendedRows& rows = all.parts[part];
    const int64_t token = index % all.tokens;
    const int64_t head = index / all.tokens % rows.heads;
    const int64_t batch = index / all.tokens / rows.heads;
    const int64_t key = all.lengths[batch] - all.tokens + token;
    const bool has_key = key >= 0 && key < all.keys;
    const Tensor& from = rows.from;
    const T* const in = static_cast<const T*>(from.data) + batch * from.batch + head * from.head + token * from.row;
    int64_t place = batch * rows.to.batch + head * rows.to.head + token * rows.to.row;
    if (rows.to_cache) {
        if (!has_key || (all.pages.at != nullptr && !all.pages.has(all.pages.page_of(batch, key)))) return;
        place = all.pages.offset(rows.to, batch, head, key);
    }
    T* const out = static_cast<T*>(rows.to.data) + place;
    const int64_t half = (rows.columns + 1) / 2;
    if (!rows.rotated) {
        for (int64_t i = first; i < half; i += step) {
            out[i] = in[i];
            if (half + i < rows.columns) out[half + i] = in[half + i];
        }
        return;
    }
    const bool bf16 = from.element == Element::bf16;
    const float* const turns = all.rope + (has_key ? key : 0) * rows.columns;
    for (int64_t i = first; i < half; i += step) {
        const int64_t a = all.interleaved ? 2 * i : i;
        const int64_t b = all.interleaved ? 2 * i + 1 : half + i;
        const Rotated turned = rotate(loaded(in + a, bf16), loaded(in + b, bf16), turns[2 * i], turns[2 * i + 1]);
        store_rounded(out + a, turned.x, bf16);
        store_rounded(out + b, turned.y, bf16);
    }
}

} // namespace hw4
