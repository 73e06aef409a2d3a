// TOKEN-SUM's tree over leaves in global memory: each thread adds its own elements.
#pragma once

#include "src/step/orders.h"

namespace hw4::step {

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

// Leaf i is leaves[i * step]. A node that waits for its sibling overwrites its first leaf.
template <class T>
__device__ T sum_in_tree(T* leaves, int64_t step, int64_t count) {
    T node = leaves[0];
    for (int64_t leaf = 0;; ++leaf) {
        int64_t first = leaf; // the node's first leaf
        for (int joins = joins_after(leaf), size = 1; joins > 0; --joins, size *= 2) {
            first -= size;
            node = leaves[first * step] + node;
        }
        if (leaf + 1 == count) {
            while (first > 0) { // the previous node begins at `first` without its lowest bit
                first &= first - 1;
                node = leaves[first * step] + node;
            }
            return node;
        }
        if (first < leaf) leaves[first * step] = node;
        node = leaves[(leaf + 1) * step];
    }
}

} // namespace hw4::step
