// Cross entropy, a block for each row of logits, a warp for each segment. Where every segment has a warp, the row stays
// in registers; else the kernel reads the row, and computes its weights, once more where it needs them.
#include "src/step/gpu/rows.cuh"

#include <algorithm>
#include <string>

namespace hw4::step {
namespace {

constexpr int kMostLossWarps = 16;
constexpr int kMostSegments = 1024; // of a row: a vocabulary of 2^20

template <bool kWide, bool kInRegisters>
__global__ void __launch_bounds__(kMostLossWarps* kWarpSize, 2)
    cross_entropy_rows(float* logits, const int32_t* targets, double* losses, int vocabulary, float share) {
    __shared__ float largest[kMostLossWarps];
    __shared__ float sums[kMostSegments];
    constexpr int kParts = kRowSegment / kRowChains; // of a lane
    float* const z = logits + int64_t{blockIdx.x} * vocabulary;
    const int warps = static_cast<int>(blockDim.x) / kWarpSize;
    const int segments = static_cast<int>(parts(vocabulary, kRowSegment));
    const int target = targets[blockIdx.x];
    const float target_logit = z[target];

    Four row[kParts];
    const auto each_part = [&](int segment, const auto& work) {
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
            const int column = static_cast<int>(segment * kRowSegment + i * kRowChains) + 4 * lane();
            if (column < vocabulary) work(row[i], column);
        }
    };
    const auto read = [&](int segment) {
        each_part(segment, [&](Four& of, int column) { of = load<kWide>(z, column, vocabulary, -HUGE_VALF); });
    };
    const auto each_segment = [&](const auto& work) {
        if constexpr (kInRegisters)
            work(warp());
        else
            for (int segment = warp(); segment < segments; segment += warps) work(segment);
    };

    float most = -HUGE_VALF;
    each_segment([&](int segment) {
        read(segment);
        each_part(segment, [&](const Four& of, int) {
#pragma unroll
            for (int i = 0; i < 4; ++i) most = larger(most, of.x[i]);
        });
    });
    most = gpu::warp_max(most);
    if (lane() == 0) largest[warp()] = most;
    __syncthreads();
    for (int i = 0; i < warps; ++i) most = larger(most, largest[i]);
    const LogitUnit unit = logit_unit(most);
    const auto weigh = [&](int segment) {
        if (!kInRegisters) read(segment);
        each_part(segment, [&](Four& of, int) { of = each([&](int i) { return unit.weight(of.x[i]); }); });
    };

    each_segment([&](int segment) {
        weigh(segment);
        Four chains = {};
        each_part(segment, [&](const Four& of, int column) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (kWide || column + i < vocabulary) chains.x[i] = chains.x[i] + of.x[i];
        });
        const float sum = sum_of_lanes(chains);
        if (lane() == 0) sums[segment] = sum;
    });
    __syncthreads(); // also: the target's logit is read before its gradient takes its place
    float l = 0;
    for (int segment = 0; segment < segments; ++segment) l = l + sums[segment];
    const float inverse_l = quotient(1.0f, l);

    each_segment([&](int segment) {
        if (!kInRegisters) weigh(segment);
        each_part(segment, [&](const Four& of, int column) {
            store<kWide>(z, column, vocabulary,
                         each([&](int i) { return logit_gradient(of.x[i], inverse_l, column + i == target, share); }));
        });
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
    const unsigned threads = static_cast<unsigned>(std::min<int64_t>(segments, kMostLossWarps)) * kWarpSize;
    const Blocks blocks{stream_, rows, threads};
    const bool wide = by_four(vocabulary, logits);
    const auto kernel = segments > kMostLossWarps
                            ? (wide ? cross_entropy_rows<true, false> : cross_entropy_rows<false, false>)
                            : (wide ? cross_entropy_rows<true, true> : cross_entropy_rows<false, true>);
    launch("launch of cross_entropy_rows", kernel, blocks, logits, targets, losses, static_cast<int>(vocabulary),
           share);
}

} // namespace hw4::step
