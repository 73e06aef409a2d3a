// Cross entropy: a block for each row of logits, a warp for each segment. A warp keeps the weights of its first segment
// in registers, of the second in shared memory, and of later ones in the row itself.
#include "src/step/gpu/rows.cuh"

#include <cuda_pipeline_primitives.h>

#include <algorithm>
#include <string>

namespace hw4::step {
namespace {

constexpr int kMostLossWarps = 16;
constexpr int kMostSegments = 1024; // per row: a vocabulary of 2^20
constexpr int kSegmentBytes = kRowSegment * sizeof(float);
constexpr int kSecondBytes = kMostLossWarps * kSegmentBytes;
constexpr int kSecondColumn = kMostLossWarps * static_cast<int>(kRowSegment);

template <bool kWide, bool kInRegisters>
__global__ void __launch_bounds__(kMostLossWarps* kWarpSize, 2)
    cross_entropy_rows(float* logits, const int32_t* targets, double* losses, int vocabulary, float share) {
    extern __shared__ float4 in_shared[];
    __shared__ float largest[kMostLossWarps];
    __shared__ float sums[kMostSegments];
    float* const z = logits + int64_t{blockIdx.x} * vocabulary;
    const int warps = static_cast<int>(blockDim.x) / kWarpSize;
    const int segments = static_cast<int>(parts(vocabulary, kRowSegment));
    const int target = targets[blockIdx.x];
    const float target_logit = z[target];

    // Where the warp's second segment (columns from kSecondColumn on) and the later ones keep their weights.
    float* const in_background = reinterpret_cast<float*>(in_shared) - kSecondColumn;
    const int second = warp() + kMostLossWarps;
    const auto each_beyond = [&](const auto& work) {
        if constexpr (!kInRegisters)
            for (int segment = second + kMostLossWarps; segment < segments; segment += kMostLossWarps) work(segment, z);
    };
    const auto each_later = [&](const auto& work) {
        if (!kInRegisters && second < segments) work(second, in_background);
        each_beyond(work);
    };

    float most = -HUGE_VALF;
    const auto compare = [&](const Four& of) {
#pragma unroll
        for (int c = 0; c < 4; ++c) most = larger(most, of.x[c]);
    };
    Part row;
    const auto compare_all = [&](int segment) { each_part(segment, vocabulary, [&](int i, int) { compare(row[i]); }); };
    each_beyond([&](int segment, float*) {
        fetch<kWide>(row, z, segment, vocabulary, -HUGE_VALF);
        compare_all(segment);
    });
    fetch<kWide>(row, z, warp(), vocabulary, -HUGE_VALF);
    if (!kInRegisters && second < segments) {
        each_part(second, vocabulary, [&](int, int column) {
#pragma unroll
            for (int c = 0; c < 4; c += kWide ? 4 : 1)
                if (column + c < vocabulary)
                    __pipeline_memcpy_async(in_background + column + c, z + column + c, kWide ? 16 : 4);
        });
        __pipeline_commit();
        __pipeline_wait_prior(0);
        each_part(second, vocabulary,
                  [&](int, int column) { compare(load<kWide>(in_background, column, vocabulary, -HUGE_VALF)); });
    }
    compare_all(warp());
    most = gpu::warp_max(most);
    if (lane() == 0) largest[warp()] = most;
    __syncthreads(); // also: the target's logit has been read before a weight overwrites it
    for (int i = 0; i < warps; ++i) most = larger(most, largest[i]);
    const LogitUnit unit = logit_unit(most);

    const auto sum = [&](int segment, const auto& weight) { // weight(part, column)
        Four chains = {};
        each_part(segment, vocabulary, [&](int i, int column) {
            const Four of = weight(i, column);
#pragma unroll
            for (int c = 0; c < 4; ++c)
                if (kWide || column + c < vocabulary) chains.x[c] = chains.x[c] + of.x[c];
        });
        const float sum = sum_of_lanes(chains);
        if (lane() == 0) sums[segment] = sum;
    };
    const auto weights_of = [&](const Four& of) { return each([&](int c) { return unit.weight(of.x[c]); }); };
    each_part(warp(), vocabulary, [&](int i, int) { row[i] = weights_of(row[i]); });
    sum(warp(), [&](int i, int) { return row[i]; });
    each_later([&](int segment, float* waiting) {
        sum(segment, [&](int, int column) {
            const Four of = weights_of(load<kWide>(waiting, column, vocabulary, -HUGE_VALF));
            store<kWide>(waiting, column, vocabulary, of);
            return of;
        });
    });
    __syncthreads();
    float l = 0;
    for (int segment = 0; segment < segments; ++segment) l = l + sums[segment];
    const float inverse_l = quotient(1.0f, l);

    const auto write = [&](const Four& of, int column) {
        store<kWide>(z, column, vocabulary,
                     each([&](int c) { return logit_gradient(of.x[c], inverse_l, column + c == target, share); }));
    };
    each_part(warp(), vocabulary, [&](int i, int column) { write(row[i], column); });
    each_later([&](int segment, float* waiting) {
        each_part(segment, vocabulary,
                  [&](int, int column) { write(load<kWide>(waiting, column, vocabulary), column); });
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
    const bool wide = by_four(vocabulary, logits);
    const int64_t later = std::clamp<int64_t>(segments - kMostLossWarps, 0, kMostLossWarps);
    const auto kernel = later > 0 ? (wide ? cross_entropy_rows<true, false> : cross_entropy_rows<false, false>)
                                  : (wide ? cross_entropy_rows<true, true> : cross_entropy_rows<false, true>);
    if (later > 0) HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSecondBytes));
    const auto threads = static_cast<unsigned>(std::min<int64_t>(segments, kMostLossWarps)) * kWarpSize;
    launch("launch of cross_entropy_rows", kernel,
           Blocks{stream_, rows, threads, static_cast<size_t>(later) * kSegmentBytes}, logits, targets, losses,
           static_cast<int>(vocabulary), share);
}

} // namespace hw4::step
