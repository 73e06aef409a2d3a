// Cross entropy, a block for each row of logits, a warp for each segment. A warp's first segment stays in registers,
// later ones in shared memory as far as there is room; the weights of those beyond wait in the row itself.
#include "src/step/gpu/rows.cuh"

#include <algorithm>
#include <string>

namespace hw4::step {
namespace {

#ifndef LOSS_SHARED
#define LOSS_SHARED 16
#endif
#ifndef LOSS_WARPS
#define LOSS_WARPS 16
#define LOSS_BLOCKS 2
#endif
constexpr int kMostLossWarps = LOSS_WARPS;
constexpr int kMostInShared = LOSS_SHARED; // segments
constexpr int kMostSegments = 1024;        // of a row: a vocabulary of 2^20
constexpr int kSegmentBytes = kRowSegment * sizeof(float);
constexpr int kFirstLater = kMostLossWarps * static_cast<int>(kRowSegment); // column

template <bool kWide>
__global__ void __launch_bounds__(kMostLossWarps* kWarpSize, LOSS_BLOCKS)
    cross_entropy_rows(float* logits, const int32_t* targets, double* losses, int vocabulary, float share) {
    extern __shared__ float4 in_shared[];
    __shared__ float largest[kMostLossWarps];
    __shared__ float sums[kMostSegments];
    constexpr int kParts = kRowSegment / kRowChains; // of a lane
    float* const z = logits + int64_t{blockIdx.x} * vocabulary;
    const int warps = static_cast<int>(blockDim.x) / kWarpSize;
    const int segments = static_cast<int>(parts(vocabulary, kRowSegment));
    const int target = targets[blockIdx.x];
    const float target_logit = z[target];

    const auto each_part = [&](int segment, const auto& work) { // work(part, column)
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
            const int column = static_cast<int>(segment * kRowSegment + i * kRowChains) + 4 * lane();
            if (column < vocabulary) work(i, column);
        }
    };
    // A warp's segments after its first, and the row in whose place they wait.
    const auto each_later = [&](const auto& work) {
        for (int segment = warp() + kMostLossWarps; segment < segments; segment += kMostLossWarps)
            work(segment,
                 segment < kMostLossWarps + kMostInShared ? reinterpret_cast<float*>(in_shared) - kFirstLater : z);
    };

    Four row[kParts];
    float most = -HUGE_VALF;
    const auto read = [&](int segment) {
        each_part(segment, [&](int i, int column) { row[i] = load<kWide>(z, column, vocabulary, -HUGE_VALF); });
        each_part(segment, [&](int i, int) {
#pragma unroll
            for (int c = 0; c < 4; ++c) most = larger(most, row[i].x[c]);
        });
    };
    each_later([&](int segment, float* waiting) {
        read(segment);
        if (waiting != z)
            each_part(segment, [&](int i, int column) { store<kWide>(waiting, column, vocabulary, row[i]); });
    });
    read(warp());
    most = gpu::warp_max(most);
    if (lane() == 0) largest[warp()] = most;
    __syncthreads();
    for (int i = 0; i < warps; ++i) most = larger(most, largest[i]);
    const LogitUnit unit = logit_unit(most);

    const auto sum = [&](int segment, const auto& weight) { // weight(part, column)
        Four chains = {};
        each_part(segment, [&](int i, int column) {
            const Four of = weight(i, column);
#pragma unroll
            for (int c = 0; c < 4; ++c)
                if (kWide || column + c < vocabulary) chains.x[c] = chains.x[c] + of.x[c];
        });
        const float sum = sum_of_lanes(chains);
        if (lane() == 0) sums[segment] = sum;
    };
    const auto weights_of = [&](const Four& of) { return each([&](int c) { return unit.weight(of.x[c]); }); };
    sum(warp(), [&](int i, int) { return row[i] = weights_of(row[i]); });
    each_later([&](int segment, float* waiting) {
        sum(segment, [&](int, int column) {
            const Four of = weights_of(load<kWide>(waiting, column, vocabulary, -HUGE_VALF));
            store<kWide>(waiting, column, vocabulary, of);
            return of;
        });
    });
    __syncthreads(); // also: the target's logit is read before its gradient takes its place
    float l = 0;
    for (int segment = 0; segment < segments; ++segment) l = l + sums[segment];
    const float inverse_l = quotient(1.0f, l);

    const auto write = [&](const Four& of, int column) {
        store<kWide>(z, column, vocabulary,
                     each([&](int c) { return logit_gradient(of.x[c], inverse_l, column + c == target, share); }));
    };
    each_part(warp(), [&](int i, int column) { write(row[i], column); });
    each_later([&](int segment, float* waiting) {
        each_part(segment, [&](int, int column) { write(load<kWide>(waiting, column, vocabulary), column); });
    });
    if (threadIdx.x == 0) losses[blockIdx.x] = cross_entropy_loss(unit, l, target_logit);
}

} // namespace

void RowKernels::cross_entropy(float* logits, const int32_t* targets, double* losses, int64_t rows, int64_t vocabulary,
                               float share) const {
    const int64_t segments = parts(vocabulary, kRowSegment);
    if (segments > kMostSegments)
        throw Error(ExitCode::bad_data, "a vocabulary of " + std::to_string(vocabulary) + " tokens, need at most " +
                                            std::to_string(kMostSegments * kRowSegment));
    const auto later = static_cast<size_t>(std::clamp<int64_t>(segments - kMostLossWarps, 0, kMostInShared));
    const auto kernel = by_four(vocabulary, logits) ? cross_entropy_rows<true> : cross_entropy_rows<false>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostInShared * kSegmentBytes));
#ifdef LOSS_CARVEOUT
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, LOSS_CARVEOUT));
#endif
    const auto threads = static_cast<unsigned>(std::min<int64_t>(segments, kMostLossWarps)) * kWarpSize;
    launch("launch of cross_entropy_rows", kernel, Blocks{stream_, rows, threads, later * kSegmentBytes}, logits,
           targets, losses, static_cast<int>(vocabulary), share);
}

} // namespace hw4::step
