// The gradients of gains.
#include "src/step/gpu/rows.cuh"

namespace hw4::step {
namespace {

// A block sums 8 columns over all tokens, so that one launch does. 8 floats are what memory gives at least. A thread
// sums a chain of 32 tokens of a column: all its numbers are on their way before it needs the first.
constexpr int kGainColumns = 8;
constexpr int kGainChains = 64; // at once
constexpr int kMostNodes = 32;  // of the tree, that wait for their sibling

__global__ void __launch_bounds__(kGainColumns* kGainChains)
    sum_gains(const float* x, const float* factors, const float* dy, float* d_gain, int sequences, int context,
              int64_t width) {
    __shared__ float totals[2][kGainChains][kGainColumns];
    __shared__ float nodes[kMostNodes][kGainColumns];
    const int own_column = static_cast<int>(threadIdx.x) % kGainColumns;
    const int own_chain = static_cast<int>(threadIdx.x) / kGainColumns;
    const int64_t column = int64_t{blockIdx.x} * kGainColumns + own_column;
    const int chains_of_leaf = static_cast<int>(parts(context, kChain)), chains = sequences * chains_of_leaf;
    float leaf = 0;
    int sequence = 0, waiting = 0, left = chains_of_leaf;
    for (int first = 0, buffer = 0; first < chains; first += kGainChains, buffer ^= 1) {
        const int chain = min(first + own_chain, chains - 1), begin = chain % chains_of_leaf * static_cast<int>(kChain);
        const int tokens = context - begin;
        const int64_t token = int64_t{chain / chains_of_leaf} * context + begin;
        const int64_t at = token * width + min(column, width - 1); // absent columns are computed, not written
        float from_x[kChain], from_dy[kChain], r[kChain / kGainColumns];
#pragma unroll
        for (int i = 0; i < kChain / kGainColumns; ++i) {
            const int t = i * kGainColumns + own_column;
            r[i] = t < tokens ? factors[token + t] : 0.0f;
        }
#pragma unroll
        for (int t = 0; t < kChain; ++t) {
            from_x[t] = t < tokens ? x[at + t * width] : 0.0f;
            from_dy[t] = t < tokens ? dy[at + t * width] : 0.0f;
        }
        float total = 0;
#pragma unroll
        for (int t = 0; t < kChain; ++t) {
            const float factor = __shfl_sync(kAllLanes, r[t / kGainColumns], t % kGainColumns, kGainColumns);
            total = fused(from_dy[t], from_x[t] * factor, total);
        }
        totals[buffer][own_chain][own_column] = total;
        __syncthreads();
        if (own_chain != 0) continue;
        for (int i = 0; i < min(kGainChains, chains - first);) {
            const int end = min(i + left, min(kGainChains, chains - first));
            left -= end - i;
#pragma unroll 16
            for (; i < end; ++i) leaf = leaf + totals[buffer][i][own_column];
            if (left > 0) break;
            for (int joins = joins_after(sequence); joins > 0; --joins) leaf = nodes[--waiting][own_column] + leaf;
            nodes[waiting++][own_column] = leaf;
            leaf = 0;
            left = chains_of_leaf;
            ++sequence;
        }
    }
    if (own_chain != 0 || column >= width) return;
    float sum = nodes[--waiting][own_column];
    while (waiting > 0) sum = nodes[--waiting][own_column] + sum;
    d_gain[column] = sum;
}

} // namespace

void RowKernels::norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                           int64_t context, int64_t width) const {
    const Blocks blocks{stream_, parts(width, kGainColumns), kGainColumns * kGainChains};
    launch("launch of sum_gains", sum_gains, blocks, x, factors, dy, d_gain, static_cast<int>(sequences),
           static_cast<int>(context), width);
}

} // namespace hw4::step
