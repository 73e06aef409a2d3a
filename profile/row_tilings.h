// The kernel of register_rows with blocks of other sizes: the experiment of profile/time_tilings.cu. All give the same
// bytes.
#pragma once

#include <string>
#include <vector>

#include "src/gpu/kernels.h"

namespace hw4::gpu {

constexpr int kMostTilingColumns = 64; // head sizes beyond are left to the rungs

struct SizedTiling {
    int rows;            // query rows: Br
    int keys;            // in shared memory at a time: Bc
    int threads;         // of a block
    size_t shared_bytes; // of a block
    // Null where those are more than a block may have.
    const void* function;
    void (*launch)(const Launch& launch, cudaStream_t stream);
};

// Every Br with every Bc, for head size `dim`.
const std::vector<SizedTiling>& row_tilings(int64_t dim);

// Why there is no code for the tiling; empty when there is.
std::string why_not(const SizedTiling& tiling);

} // namespace hw4::gpu
