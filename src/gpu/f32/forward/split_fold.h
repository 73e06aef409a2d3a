// The second part of split_keys (split_fold.cu), and its shared memory.
#pragma once

#include "src/gpu/f32/forward/split_share.cuh"

namespace hw4::gpu::split {

constexpr int kFoldColumns = 32;
constexpr int kFoldSegments = 64; // of a stage
constexpr int kFoldStages = 6;

struct FoldMemory {
    alignas(16) float sums[kFoldStages][kFoldSegments][kFoldColumns];
    alignas(16) SegmentFactors factors[kFoldStages][kFoldSegments];
    float inverse;
};

// After launches of segments_kernel with tiles of that many rows and columns.
void launch_fold(const Args& args, Element element, int64_t blocks, unsigned folds, int rows, int columns,
                 cudaStream_t stream);

} // namespace hw4::gpu::split
