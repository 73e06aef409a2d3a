// The CPU kernels: one algorithm (attention_simd.h), compiled once for each kind of vector unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../contract.h"

namespace hw4::cpu {

// A block of query rows of one batch: the piece of work that one thread takes at a time.
struct RowBlock {
    const float* q; // [rows][dim], the block's first row
    const float* k; // [tokens][dim]
    const float* v; // [tokens][dim]
    float* out;     // [rows][dim]
    int64_t rows;   // <= Kernel::block_rows
    int64_t tokens;
    int64_t dim;
    Scale scale;
};

struct Kernel {
    const char* name;
    const char* idea;
    bool (*supported)(); // by this processor
    int64_t block_rows;
    size_t (*workspace_floats)(int64_t dim);
    // `workspace` is aligned to 64 bytes and holds workspace_floats(dim); its content does not matter.
    void (*attend)(const RowBlock& block, float* workspace);
};

// Every kernel of this build, fastest first; the last one runs anywhere.
const std::vector<const Kernel*>& kernels();

} // namespace hw4::cpu
