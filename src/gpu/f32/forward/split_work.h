// How the keys of few query rows are split among the blocks of the GPU.
//
// A *unit* is up to R query rows that share a head of K and V. Its keys are segments of 64. All segments of all units
// form one line, unit after unit, and every block has an equal share of that line: its first unit may have begun in
// an earlier block, its last may go on in the next. Batches may have different numbers of keys. With a window a unit's
// segments begin with the first key that a query of the batch sees.
#pragma once

#include <cstdint>

#include "src/base/inline.h"
#include "src/contracts/f32/forward.h"

namespace hw4::gpu::split {

HW4_INLINE int64_t segments_of(int64_t keys) { return (keys + kSegmentKeys - 1) / kSegmentKeys; }

// The most segments that `keys` adjacent keys can be in, for at least one key.
HW4_INLINE int64_t most_segments_of(int64_t keys) { return 1 + segments_of(keys - 1); }

// Whether a block for each unit, in one launch, takes less time than equal shares in three.
HW4_INLINE bool has_few_segments(int64_t of_unit) { return of_unit <= 4; }

// Where the shares of `blocks` blocks begin and end.
struct Shares {
    int64_t segments; // of all units
    int64_t blocks;

    HW4_INLINE int64_t first(int64_t block) const { return segments * block / blocks; }
    // The block with this segment: the last with a share that begins there or before.
    HW4_INLINE int64_t block_of(int64_t segment) const { return ((segment + 1) * blocks - 1) / segments; }
    // Whether every unit of up to `unit` segments has segments in at most two blocks.
    HW4_INLINE bool are_larger_than(int64_t unit) const { return unit <= segments / blocks + 1; }
};

} // namespace hw4::gpu::split
