// The CPU kernels: for each contract one algorithm, compiled once for each kind of vector unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/contracts/contract.h"

namespace hw4::cpu {

// A block of query rows of one batch: the piece of work that one thread takes at a time.
struct RowBlock {
    const float* q = nullptr; // [rows][dim], the block's first row
    const float* k = nullptr; // [tokens][dim]
    const float* v = nullptr; // [tokens][dim]
    float* out = nullptr;     // [rows][dim]
    int64_t rows = 0;         // <= Kernel::block_rows
    int64_t tokens = 0;
    int64_t dim = 0;
    Scale scale{};
    const void* prepared = nullptr; // what prepare() has made of all the batch's keys; null for kernels without one
};

constexpr int64_t kPreparedKeys = fixed::kTileKeys; // a tile of K and V, the least piece that is prepared

// Some tiles of keys of one batch.
struct KeyTiles {
    const float* k; // [tokens][dim], of the whole batch
    const float* v; // likewise
    int64_t tokens;
    int64_t dim;
    int64_t first; // tile; its first key is kPreparedKeys * first
    int64_t end;   // the tile after the last
};

struct Kernel {
    const char* name = nullptr;
    const char* idea = nullptr;
    bool (*supported)() = nullptr; // by this processor
    int64_t block_rows = 0;
    size_t (*workspace_floats)(int64_t rows, int64_t dim) = nullptr; // for blocks of up to so many rows
    // `workspace` is aligned to 64 bytes and holds workspace_floats() for the block; its content does not matter.
    void (*attend)(const RowBlock& block, float* workspace) = nullptr;

    Arithmetic arithmetic = Arithmetic::f32;
    // For kernels that want K and V of a whole batch in another form, made once a batch; null for the others.
    size_t (*prepared_bytes)(int64_t tokens, int64_t dim) = nullptr;
    // Makes that form of some tiles in `prepared`, which is aligned to 64 bytes, holds prepared_bytes(tokens, dim) and
    // starts with any content. Called for every tile once, by several threads at the same time, in any order, and
    // returned from for all of them before attend() sees the batch. Like attend(), it must not throw.
    void (*prepare)(const KeyTiles& tiles, void* prepared) = nullptr;
};

// Every kernel of this build, those of one contract together, fastest first; the last one of each runs anywhere.
const std::vector<const Kernel*>& kernels();

} // namespace hw4::cpu
