// Forward attention by blocks of query rows, which threads take one at a time: one algorithm for each contract,
// compiled once for each kind of vector unit. These files include no function that the linker could merge with one of a
// file for other processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "src/contracts/f32/forward.h"
#include "src/contracts/row_statistics.h"
#include "src/problem/element.h"
#include "src/problem/mask.h"
#include "src/problem/operation.h"

namespace hw4::cpu {

// A block of query rows of one unit: the work that a thread takes at a time.
struct RowBlock {
    const void* q = nullptr; // [rows][dim], the block's first row
    const void* k = nullptr; // [keys][dim]
    const void* v = nullptr; // [keys][dim]
    void* out = nullptr;     // [rows][dim]
    int64_t rows = 0;        // <= BlockKernel::block_rows
    int64_t keys = 0;
    int64_t dim = 0;
    Scale scale{};
    const void* prepared = nullptr; // the result of prepare() for all these keys; null for kernels without prepare()
    // The number of keys that the first row sees, at least one. Under the causal mask each row sees one more than the
    // row before, up to all keys; without a mask all rows see all keys.
    int64_t first_sees = keys;
    RowStatistics* statistics = nullptr; // [rows]; null: not wanted
    Element element = Element::float32;  // of q, k, v and out
    int64_t window = kNoWindow;          // a row sees only the last `window` of its keys; for kernels that take windows

    HW4_INLINE int64_t sees(int64_t row) const { return first_sees + row < keys ? first_sees + row : keys; }
    // The first key that the row sees.
    HW4_INLINE int64_t from(int64_t row) const { return sees(row) > window ? sees(row) - window : 0; }
};

// Some tiles of the keys of one head, of BlockKernel::prepared_keys each.
struct KeyTiles {
    const void* k; // [keys][dim], all of them
    const void* v; // [keys][dim]
    int64_t keys;
    int64_t dim;
    int64_t first; // tile; its first key is prepared_keys * first
    int64_t end;   // the tile after the last
    Element element = Element::float32;
};

// Numbers from `first` on as floats: in place, or widened into `room`.
HW4_INLINE const float* as_floats(Element element, const void* numbers, int64_t first, int64_t count, float* room) {
    if (element == Element::float32) return static_cast<const float*>(numbers) + first;
    widen(element, static_cast<const uint16_t*>(numbers) + first, static_cast<size_t>(count), room);
    return room;
}

inline constexpr Element kFloat32Only[] = {Element::float32};
inline constexpr Element kBf16AndFloat32[] = {Element::bf16, Element::float32};

// Threads that divide the keys of a block (by_keys.cpp) take parts of this size, counted from a segment's first key.
constexpr int64_t kPartKeys = 512;
constexpr int64_t kPartTiles = kPartKeys / kKeyTile;
constexpr int64_t kPartSegments = kPartKeys / kSegmentKeys;

// The results of a part of the keys for a row, except the sums of its segments.
struct RowPart {
    Reference start;              // before the part
    Reference end;                // after it
    float largest[kPartTiles];    // the largest score of each tile
    float raised[kPartTiles];     // factors of the running sums before the tile's shares are added
    float rescale[kPartSegments]; // factors of the totals before the segment's sums are added
    float shares[kPartTiles][kSumLanes];
};

struct BlockKernel {
    bool (*supported)() = nullptr; // by this processor
    int64_t block_rows = 0;
    size_t (*workspace_floats)(int64_t rows, int64_t dim) = nullptr; // for blocks of up to `rows` rows
    // `workspace` is aligned to 64 bytes and holds workspace_floats() for the block; its content does not matter.
    void (*attend)(const RowBlock& block, float* workspace) = nullptr;

    // One part of the keys, from `first_key` on, with the references that `rows` begin with: fills in the rest of
    // `rows` [rows], and `sums` [segment][rows][dim] for the segments that begin before the last key that a row sees.
    // Null: the kernel does not divide keys.
    void (*attend_part)(const RowBlock& block, int64_t first_key, RowPart* rows, float* sums,
                        float* workspace) = nullptr;

    int64_t most_dim = 0;                  // 0: any
    List<Element> elements = kFloat32Only; // the elements that the kernel takes

    // For kernels that need K and V of a head in another form, made once; 0 and null for other kernels.
    int64_t prepared_keys = 0; // keys of a tile of K and V, the smallest piece to prepare
    size_t (*prepared_bytes)(int64_t keys, int64_t dim) = nullptr;
    // Writes this form of some tiles into `prepared`, which is aligned to 64 bytes, holds prepared_bytes(keys, dim) and
    // may have any content before. Called once for every tile, by several threads at the same time and in any order;
    // all calls have returned before attend() gets the keys. Like attend(), it must not throw.
    void (*prepare)(const KeyTiles& tiles, void* prepared) = nullptr;

    int64_t tiles_of(int64_t keys) const { return prepared_keys == 0 ? 0 : (keys + prepared_keys - 1) / prepared_keys; }
};

// The compiler moves no load across this. Otherwise it loads all inputs of a panel's step as early as it can, runs out
// of registers and keeps sums in memory.
HW4_INLINE void keep_order() { asm volatile("" ::: "memory"); }

// The parts of a workspace one after the other, each from a cache line on. Without a workspace it only counts them.
class WorkspaceParts {
public:
    explicit HW4_INLINE WorkspaceParts(float* base) : base_(base) {}

    HW4_INLINE float* take(size_t count) {
        float* const part = base_ != nullptr ? base_ + floats_ : nullptr;
        floats_ += (count + 15) / 16 * 16;
        return part;
    }
    template <class T>
    HW4_INLINE T* make(size_t count) {
        static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>);
        static_assert(alignof(T) <= 64 && sizeof(T) % sizeof(float) == 0);
        float* const part = take(count * sizeof(T) / sizeof(float));
        return part != nullptr ? ::new (static_cast<void*>(part)) T[count] : nullptr;
    }
    HW4_INLINE size_t floats() const { return floats_; }

private:
    float* base_;
    size_t floats_ = 0;
};

constexpr int64_t kMostTurnedColumns = 1024;

// out[first + row][x] = columns[x][row], rounded to the block's element; columns are `stride` apart. A vector type V
// brings transpose4, for 4 x 4 numbers.
template <class V>
HW4_INLINE void store_turned(const float* columns, int64_t stride, const RowBlock& block, int64_t first, int64_t rows) {
    const int64_t dim = block.dim;
    alignas(64) float room[4 * kMostTurnedColumns];
    for (int64_t row = 0; row < rows; row += 4) {
        const int64_t count = rows - row < 4 ? rows - row : 4;
        const int64_t at = (first + row) * dim;
        float* const out = block.element == Element::float32 ? static_cast<float*>(block.out) + at : room;
        int64_t x = 0;
        for (; count == 4 && x + 4 <= dim; x += 4) V::transpose4(columns + x * stride + row, stride, out + x, dim);
        for (; x < dim; ++x)
            for (int64_t i = 0; i < count; ++i) out[i * dim + x] = columns[x * stride + row + i];
        if (block.element != Element::float32)
            narrow(block.element, room, static_cast<size_t>(count * dim), static_cast<uint16_t*>(block.out) + at);
    }
}

// One for each file of f32/ and of half/, and two for each of fixed/; each processor has its own.
extern const BlockKernel kF32Generic, kF32Neon, kF32Avx2, kF32Avx512, kBf16Amx;
extern const BlockKernel kFixedGeneric, kFixedSdot, kFixedSmmla, kFixedAvx2, kFixedAvxVnni, kFixedAvx512, kFixedAmx;
extern const BlockKernel kFixed16Generic, kFixed16Sdot, kFixed16Smmla, kFixed16Avx2, kFixed16AvxVnni, kFixed16Avx512,
    kFixed16Amx;

} // namespace hw4::cpu
