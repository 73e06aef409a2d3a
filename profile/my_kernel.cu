// my_kernel: a kernel in a file of its own (src/gpu/hw4_kernel.h), to start from.
//
//     make my-kernel
//     ./hw4 --kernel-file build/my_kernel.so my.in my.out
//     judge/judge --kernel-file build/my_kernel.so t01 t02
//     ./hw4 bench --kernel-file build/my_kernel.so --shape t28 --passes forward
//     profile/profile --kernel-file build/my_kernel.so --kernel my_kernel drawn_tiles
//
// Each thread computes one query row, with the operations of the contract f32 (src/contracts/f32/forward.h) in their
// order, so the bytes equal seq's. A kernel with arithmetic of its own is judged with --atol.
//
// `make my-kernel FILE=mine.cu` builds build/mine.so from your file. Without make, you need the contract's flags, too:
//
//     nvcc -O3 -std=c++17 -arch=native -fmad=false -Xcompiler -fPIC,-ffp-contract=off -shared -I. mine.cu -o mine.so
#include "src/contracts/f32/forward.h"
#include "src/gpu/hw4_kernel.h"

namespace {

using namespace hw4;

constexpr int kThreads = 128;
constexpr int kMostDim = 64;

__device__ float score(const float* q, const float* k, int64_t dim) {
    float s = 0.0f;
    for (int64_t first = 0; first < dim; first += kScoreColumns) {
        float block = 0.0f;
        for (int64_t t = first; t < min(first + kScoreColumns, dim); ++t) block = fused(q[t], k[t], block);
        s += block;
    }
    return s;
}

__global__ void my_kernel(const Hw4Launch args, const Scale scale) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (row >= args.batches * args.queries) return;
    const int64_t batch = row / args.queries;
    const int64_t query = row % args.queries;
    const float* const q = args.q.at + batch * args.q.batch + query * args.q.row;
    float lanes[kSumLanes] = {};
    float o[kMostDim] = {};
    float total[kMostDim] = {};
    Reference reference = empty_reference();
    Reference total_reference = empty_reference();
    for (int64_t first = 0; first < args.keys; first += kKeyTile) {
        const float* const k = args.k.at + batch * args.k.batch + first * args.k.row;
        const float* const v = args.v.at + batch * args.v.batch + first * args.v.row;
        const int64_t keys = min(args.keys - first, int64_t{kKeyTile});
        float p[kKeyTile] = {}; // scores, then weights
        float largest = -HUGE_VALF;
        for (int64_t j = 0; j < keys; ++j) largest = larger(largest, p[j] = score(q, k + j * args.k.row, args.dim));
        if (!reference.covers(largest)) {
            const Reference raised = reference_at(largest, scale);
            const float alpha = rescale_factor(reference, raised, scale);
            for (float& lane : lanes) lane *= alpha;
            for (float& x : o) x *= alpha;
            reference = raised;
        }
        for (int64_t j = 0; j < keys; ++j) {
            p[j] = reference.weight(p[j], scale);
            for (int64_t x = 0; x < args.dim; ++x) o[x] = fused(p[j], v[j * args.v.row + x], o[x]);
        }
        for (int g = 0; g < kSumLanes; ++g) lanes[g] += lane_share(p + g * kLaneKeys);
        if ((first + kKeyTile) % kSegmentKeys != 0 && first + kKeyTile < args.keys) continue;
        const float alpha = rescale_factor(total_reference, reference, scale);
        for (int64_t x = 0; x < args.dim; ++x) total[x] = fused(total[x], alpha, o[x]);
        for (float& x : o) x = 0.0f;
        total_reference = reference;
    }
    float* const out = args.out.at + batch * args.out.batch + query * args.out.row;
    for (int64_t x = 0; x < args.dim; ++x) out[x] = result(total[x], 1.0f / close_lanes(lanes));
}

int launch(const Hw4Launch* args) {
    const int64_t blocks = (args->batches * args->queries + kThreads - 1) / kThreads;
    my_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(args->stream)>>>(
        *args, scale_for(args->dim));
    return cudaGetLastError();
}

} // namespace

extern "C" const Hw4Kernel hw4_kernel = {
    HW4_KERNEL_ABI, sizeof(Hw4Kernel), "my_kernel", "an example: a thread for each query row", kMostDim, 75, 0, nullptr,
    launch};
