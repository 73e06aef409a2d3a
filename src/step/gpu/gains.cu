// The gradients of gains: a kernel for the leaves of all sequences, and one for their tree.
#include "src/gpu/common/handover.cuh"
#include "src/step/gpu/rows.cuh"
#include "src/step/gpu/token_tree.cuh"

#include <algorithm>

namespace hw4::step {
namespace {

constexpr int kGainFours = 8;   // per block: 128 bytes of a row
constexpr int kGainChains = 32; // of a leaf at a time
constexpr int kGainTokens = 8;  // loaded at a time
constexpr int kGainBlocks = 2;  // per multiprocessor, at the largest block size
constexpr int kJoinThreads = 1024;

// A block for each sequence's leaf of kGainFours * 4 columns, a thread for each chain of four columns.
template <bool kWide>
__global__ void __launch_bounds__(kGainFours* kGainChains, kGainBlocks)
    sum_leaves(const float* x, const float* factors, const float* dy, float4* leaves, int64_t context, int64_t width) {
    gpu::let_next_kernel_start();
    __shared__ float4 chains[kGainChains][kGainFours];
    const int64_t fours = parts(width, 4), blocks_of_leaf = parts(fours, kGainFours);
    const int64_t sequence = blockIdx.x / blocks_of_leaf;
    const int64_t four = blockIdx.x % blocks_of_leaf * kGainFours + threadIdx.x;
    float4 total = {};
    for (int64_t first = kChain * threadIdx.y; first - kChain * threadIdx.y < context; first += kChain * blockDim.y) {
        const int tokens = four < fours ? static_cast<int>(min(kChain, context - first)) : 0;
        const int64_t token = sequence * context + first;
        Four chain = {};
#pragma unroll kGainTokens
        for (int t = 0; t < tokens; ++t) {
            const Four from_x = load<kWide>(x + (token + t) * width, 4 * four, width);
            const Four from_dy = load<kWide>(dy + (token + t) * width, 4 * four, width);
            const float factor = factors[token + t];
#pragma unroll
            for (int i = 0; i < 4; ++i) chain.x[i] = fused(from_dy.x[i], from_x.x[i] * factor, chain.x[i]);
        }
        chains[threadIdx.y][threadIdx.x] = make_float4(chain.x[0], chain.x[1], chain.x[2], chain.x[3]);
        __syncthreads();
        if (threadIdx.y == 0)
            for (unsigned i = 0; i < blockDim.y; ++i) total = total + chains[i][threadIdx.x];
        __syncthreads();
    }
    if (threadIdx.y == 0 && four < fours) leaves[sequence * fours + four] = total;
}

// Every lane gets the node above the leaves or nodes of 32 lanes.
__device__ __forceinline__ float4 join_lanes(float4 sum) {
#pragma unroll
    for (int apart = 1; apart < kWarpSize; apart *= 2)
        sum = sum + make_float4(__shfl_xor_sync(kAllLanes, sum.x, apart), __shfl_xor_sync(kAllLanes, sum.y, apart),
                                __shfl_xor_sync(kAllLanes, sum.z, apart), __shfl_xor_sync(kAllLanes, sum.w, apart));
    return sum;
}

// A block for each four columns, a thread for each leaf, or for 2^n leaves. A leaf that does not exist is 0, which
// changes nothing.
__global__ void __launch_bounds__(kJoinThreads, 1)
    join_leaves(float4* leaves, float* d_gain, int64_t sequences, int64_t width) {
    __shared__ float4 nodes[kWarpSize];
    const int64_t fours = parts(width, 4);
    int64_t own = 1;
    while (own * blockDim.x < sequences) own *= 2;
    const int64_t first = own * threadIdx.x;
    gpu::wait_for_kernel_before();
    float4 sum = {};
    if (first < sequences) sum = sum_in_tree(leaves + first * fours + blockIdx.x, fours, min(own, sequences - first));
    sum = join_lanes(sum);
    if (lane() == 0) nodes[warp()] = sum;
    __syncthreads();
    if (warp() > 0) return;
    sum = join_lanes(lane() * kWarpSize < blockDim.x ? nodes[lane()] : float4{});
    if (lane() == 0) store<false>(d_gain, 4 * int64_t{blockIdx.x}, width, {{sum.x, sum.y, sum.z, sum.w}});
}

} // namespace

void RowKernels::norm_gain(const float* x, const float* factors, const float* dy, float4* leaves, float* d_gain,
                           int64_t sequences, int64_t context, int64_t width) const {
    const int64_t fours = parts(width, 4);
    const auto chains = static_cast<unsigned>(std::min<int64_t>(parts(context, kChain), kGainChains));
    const Blocks blocks{stream_, sequences * parts(fours, kGainFours), {kGainFours, chains}};
    HW4_LAUNCH(sum_leaves, by_four(width, x, dy), blocks, x, factors, dy, leaves, context, width);
    const auto threads =
        static_cast<unsigned>(std::min<int64_t>(kWarpSize * parts(sequences, kWarpSize), kJoinThreads));
    gpu::launch_early("launch of join_leaves", join_leaves, static_cast<unsigned>(fours), threads, 0, stream_, leaves,
                      d_gain, sequences, width);
}

} // namespace hw4::step
