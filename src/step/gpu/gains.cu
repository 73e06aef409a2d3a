// The gradients of gains: the chains of all sequences, then what they sum to.
#include "src/step/gpu/rows.cuh"
#include "src/step/gpu/token_tree.cuh"

namespace hw4::step {
namespace {

#ifndef GAIN_THREADS
#define GAIN_THREADS 64
#endif
#ifndef GAIN_BLOCKS
#define GAIN_BLOCKS 8
#endif
#ifndef GAIN_TOKENS
#define GAIN_TOKENS 8
#endif
#ifndef GAIN_LEAVES
#define GAIN_LEAVES 16
#endif
constexpr int kGainLeaves = GAIN_LEAVES;
constexpr int kGainThreads = GAIN_THREADS; // few, so that a small tensor's blocks meet every multiprocessor
constexpr int kGainTokens = GAIN_TOKENS;   // whose numbers are on their way at once

// A thread for each chain of four columns. They follow one another as the numbers that they are the first of.
template <bool kWide>
__global__ void __launch_bounds__(kGainThreads, GAIN_BLOCKS)
    sum_chains(const float* x, const float* factors, const float* dy, float4* chains, int64_t sequences,
               int64_t context, int64_t width) {
    const int64_t fours = parts(width, 4), of_leaf = parts(context, kChain);
    const int64_t thread = int64_t{blockIdx.x} * kGainThreads + threadIdx.x;
    const int64_t chain = thread / fours, column = 4 * (thread % fours);
    const int64_t sequence = chain / of_leaf, first = chain % of_leaf * kChain; // of the sequence's tokens
    if (sequence >= sequences) return;
    const int tokens = static_cast<int>(min(kChain, context - first));
    const int64_t token = sequence * context + first;
    Four sum = {};
#pragma unroll kGainTokens
    for (int t = 0; t < tokens; ++t) {
        const Four from_x = load<kWide>(x + (token + t) * width, column, width);
        const Four from_dy = load<kWide>(dy + (token + t) * width, column, width);
        const float factor = factors[token + t];
#pragma unroll
        for (int i = 0; i < 4; ++i) sum.x[i] = fused(from_dy.x[i], from_x.x[i] * factor, sum.x[i]);
    }
    chains[thread] = make_float4(sum.x[0], sum.x[1], sum.x[2], sum.x[3]);
}

// A block for each four columns, a lane for each leaf. A leaf that does not exist is 0, which changes nothing. The node
// of 32 leaves takes the place of their first chain.
__global__ void __launch_bounds__(kThreads, 1)
    join_chains(float4* chains, float* d_gain, int64_t sequences, int64_t of_leaf, int64_t width) {
    const int64_t fours = parts(width, 4);
    float4* const own = chains + blockIdx.x;
    for (int64_t first = kWarpSize * warp(); first < sequences; first += kThreads) {
        const int64_t leaf = first + lane();
        float4 sum = {};
        if (leaf < sequences) {
#pragma unroll kGainLeaves
            for (int64_t i = 0; i < of_leaf; ++i) sum = sum + own[(leaf * of_leaf + i) * fours];
        }
        for (int apart = 1; apart < kWarpSize; apart *= 2)
            sum = sum + make_float4(__shfl_xor_sync(kAllLanes, sum.x, apart), __shfl_xor_sync(kAllLanes, sum.y, apart),
                                    __shfl_xor_sync(kAllLanes, sum.z, apart), __shfl_xor_sync(kAllLanes, sum.w, apart));
        if (lane() == 0) own[leaf * of_leaf * fours] = sum;
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    const float4 sum = sum_in_tree(own, kWarpSize * of_leaf * fours, parts(sequences, kWarpSize));
    store<false>(d_gain, 4 * int64_t{blockIdx.x}, width, {{sum.x, sum.y, sum.z, sum.w}});
}

} // namespace

void RowKernels::norm_gain(const float* x, const float* factors, const float* dy, float4* chains, float* d_gain,
                           int64_t sequences, int64_t context, int64_t width) const {
    const int64_t fours = parts(width, 4), of_leaf = parts(context, kChain);
    const Blocks all{stream_, parts(sequences * of_leaf * fours, kGainThreads), kGainThreads};
    HW4_LAUNCH(sum_chains, by_four(width, x, dy), all, x, factors, dy, chains, sequences, context, width);
    const auto threads = static_cast<unsigned>(kWarpSize * std::min<int64_t>(kWarps, parts(sequences, kWarpSize)));
    launch("launch of join_chains", join_chains, Blocks{stream_, fours, threads}, chains, d_gain, sequences, of_leaf,
           width);
}

} // namespace hw4::step
