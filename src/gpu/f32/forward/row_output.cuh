// Where the kernel of row_tiles.cuh keeps a query row's output while it grows: in memory or in registers. Either way a
// lane has one column in each chunk of 32 and is the only thread that touches it.
#pragma once

#include "src/gpu/f32/forward/common.cuh"

namespace hw4::gpu {

constexpr int kTile = kKeyTile; // keys of a tile, columns of a chunk, lanes of a warp
static_assert(kTile == kScoreColumns, "a chunk of columns is one block of the score");
static_assert(kTile == kWarpSize, "a lane for each key and for each column");

// A lane's columns of an output row in global memory.
struct LaneColumns {
    float* first;
    int count; // of its chunks, from the first, those in which the column exists

    __device__ __forceinline__ bool exists(int chunk) const { return chunk < count; }
    __device__ __forceinline__ float& at(int chunk) const { return first[chunk * kTile]; }
};

// None for a row that does not exist.
__device__ __forceinline__ LaneColumns lane_columns(const ForwardArgs& args, float* out, int64_t row, int lane) {
    if (row >= args.queries) return {nullptr, 0};
    return {out + static_cast<size_t>(row) * args.out.row + lane, (args.dim - lane + kTile - 1) / kTile};
}

// The running output in shared memory. For the totals there is no room left: they wait in the output itself.
template <int kChunks, int kRows>
class SharedOutput {
public:
    struct Memory {
        float running[kChunks][kRows][kTile];
    };

    __device__ __forceinline__ SharedOutput(Memory& memory, int row, int lane, const LaneColumns& totals)
        : running_(&memory.running[0][row][lane]), totals_(totals) {
#pragma unroll 1
        for (int chunk = 0; chunk < kChunks; ++chunk) {
            running(chunk) = 0.0f;
            set_total(chunk, 0.0f);
        }
    }

    __device__ __forceinline__ float& running(int chunk) { return running_[chunk * kRows * kTile]; }
    __device__ __forceinline__ float total(int chunk) const { return totals_.exists(chunk) ? totals_.at(chunk) : 0.0f; }
    __device__ __forceinline__ void set_total(int chunk, float x) {
        if (totals_.exists(chunk)) totals_.at(chunk) = x;
    }

private:
    float* running_; // this lane's in the first chunk
    LaneColumns totals_;
};

template <int kChunks>
class RegisterOutput {
public:
    struct Memory {};

    __device__ __forceinline__ RegisterOutput(Memory&, int, int, const LaneColumns&) {}

    __device__ __forceinline__ float& running(int chunk) { return running_[chunk]; }
    __device__ __forceinline__ float total(int chunk) const { return totals_[chunk]; }
    __device__ __forceinline__ void set_total(int chunk, float x) { totals_[chunk] = x; }

private:
    float running_[kChunks] = {};
    float totals_[kChunks] = {};
};

} // namespace hw4::gpu
