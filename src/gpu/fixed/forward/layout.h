// The layout of the digits of K and V in global memory: as the kernels need them in shared memory, so that a tile
// arrives there in one piece.
//
// A tile of 64 keys, or of 128 with two digits, has a plane of bytes for each digit of K, the lowest first,
// [keys][kDim]; then for each part of V's columns (kColumns: as many as there are registers for their sums) the same
// planes of V transposed, [columns][keys]; and the scales of the numbers. Rows are cut into pieces of 16 bytes; their
// order within 128 bytes is the swizzle that the tensor cores expect. V's keys are permuted within groups of 16, so
// that a thread's weights of some keys are needed in the registers in which it finds the scores of these keys.
#pragma once

#include <cstdint>

#include "src/gpu/fixed/forward/rules.h"
#include "src/problem/problem.h"

namespace hw4::gpu::fixed_point {

// The scales of a tile's numbers. The rest is zero and is copied too.
struct alignas(16) TileScales {
    int k_exponent;
    int v_exponent;
    int64_t unused;
};
static_assert(sizeof(TileScales) == 16, "copied as 16 bytes");

// Where byte `at` of a row of kRowBytes goes within a plane.
template <int kRowBytes>
__host__ __device__ constexpr int swizzled(int row, int at) {
    static_assert(kRowBytes == 32 || kRowBytes == 64 || kRowBytes == 128 || kRowBytes == 256);
    constexpr int kPeriod = kRowBytes < 128 ? 128 : kRowBytes;
    constexpr int kPieces = kRowBytes < 128 ? kRowBytes / 16 : 8;
    const auto linear = static_cast<unsigned>(row * kRowBytes + at);
    return static_cast<int>(linear ^ ((linear / kPeriod % kPieces) << 4));
}

constexpr int kSwizzleRows = 8; // the pattern repeats after so many, for any kRowBytes
template <int kRowBytes>
constexpr bool swizzle_repeats() {
    for (int row = 0; row < kSwizzleRows; ++row)
        for (int at = 0; at < kRowBytes; at += 16)
            if (swizzled<kRowBytes>(row + kSwizzleRows, at) != swizzled<kRowBytes>(row, at) + kSwizzleRows * kRowBytes)
                return false;
    return true;
}
static_assert(swizzle_repeats<32>() && swizzle_repeats<64>() && swizzle_repeats<128>() && swizzle_repeats<256>());

constexpr int kScalesStride = 128; // space of the scales in global memory, so that tiles start at cache lines

template <class Rules, int kDim>
struct TileLayout {
    static_assert(kDim == 32 || kDim == 64 || kDim == 128 || kDim == 256);
    static constexpr int kDigits = Rules::kDigits;
    static constexpr int kTileKeys = Rules::kTileKeys;
    static constexpr int kPlane = kTileKeys * kDim;                      // of K
    static constexpr int kColumns = kDim == 64 || kDim == 128 ? 64 : 32; // of V in a part
    static constexpr int kParts = kDim / kColumns;
    static constexpr int kPartPlane = kColumns * kTileKeys; // of V
    static constexpr int kPart = kDigits * kPartPlane;
    static constexpr int kValues = kDigits * kPlane; // offset of V
    static constexpr int kScales = kValues + kParts * kPart;
    static constexpr int kBytes = kScales + static_cast<int>(sizeof(TileScales));
    static constexpr bool kScalesApart = kDigits == 2; // in shared memory, which has no space left for a line for them
    static constexpr int kStride = kScales + kScalesStride; // distance of tiles in global memory
};

// The number of columns that kernels work with: columns beyond d are zeros.
constexpr int padded_columns(int64_t dim) { return dim <= 32 ? 32 : dim <= 64 ? 64 : dim <= 128 ? 128 : 256; }

template <class Rules>
__host__ __device__ constexpr int64_t tiles_of(int64_t keys) {
    return (keys + Rules::kTileKeys - 1) / Rules::kTileKeys;
}

// The results of the pre-pass for the next kernel, in scratch memory.
struct Prepared {
    unsigned char* tiles; // [heads of K and V in all batches][tiles][TileLayout::kStride]
    HeadFacts* heads;     // [heads of K and V in all batches]
    unsigned char* end;   // other data may follow here
};

constexpr int64_t rounded_up(int64_t bytes) { return (bytes + 255) / 256 * 256; }

template <class Rules>
constexpr int64_t tile_bytes(int64_t dim) {
    return int64_t{2} * Rules::kDigits * Rules::kTileKeys * padded_columns(dim) + kScalesStride;
}
static_assert(tile_bytes<ThreeDigits>(32) == TileLayout<ThreeDigits, 32>::kStride);
static_assert(tile_bytes<ThreeDigits>(256) == TileLayout<ThreeDigits, 256>::kStride);
static_assert(tile_bytes<TwoDigits>(64) == TileLayout<TwoDigits, 64>::kStride);

// Offsets in bytes.
struct PreparedOffsets {
    int64_t heads;
    int64_t end;

    template <class Rules>
    static PreparedOffsets of(int64_t heads, int64_t keys, int64_t dim) {
        const int64_t tiles = rounded_up(heads * tiles_of<Rules>(keys) * tile_bytes<Rules>(dim));
        return {tiles, tiles + rounded_up(heads * int64_t{sizeof(HeadFacts)})};
    }
};

template <class Rules>
size_t prepared_bytes(const Problem& problem) {
    const int64_t heads = problem.batches * problem.kv_heads;
    return static_cast<size_t>(PreparedOffsets::of<Rules>(heads, problem.keys, problem.dim).end);
}

template <class Rules>
Prepared prepared_at(void* scratch, int64_t heads, int64_t keys, int64_t dim) {
    const PreparedOffsets offsets = PreparedOffsets::of<Rules>(heads, keys, dim);
    auto* const at = static_cast<unsigned char*>(scratch);
    return {at, reinterpret_cast<HeadFacts*>(at + offsets.heads), at + offsets.end};
}

} // namespace hw4::gpu::fixed_point
