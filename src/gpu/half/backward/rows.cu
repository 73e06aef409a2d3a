// prepare_rows, finish_queries: the passes of half precision's backward besides its kernel.
//
// Idea      Eight lanes take a row, a piece of 8 columns each at a time. Sums of dQ are read in the order in which the
//           groups wrote them.
// Limits    Memory.
#include "src/gpu/half/backward/args.h"

#include "src/gpu/device/check.h"
#include "src/gpu/half/forward/output_rows.cuh"

namespace hw4::gpu::half_backward {
namespace {

using half_forward::Bf16;
using half_forward::Fp16;
using half_forward::OutputRows;

constexpr int kRowThreads = 256;
constexpr int kRowLanes = 8;
constexpr int kBlockRows = kRowThreads / kRowLanes;

struct PrepareArgs {
    Operand out;
    Operand dout;
    const RowStatistics* statistics;
    int64_t statistics_unit;
    unsigned* far_rows; // 1 if there are any
    float* levels;
    float* origins;
    float* products;
    uint32_t heads;
    int queries;
    int padded;
    int dim;
    bool whole_pieces;
};

// A lane's columns of dO . O: pieces of 8, every eighth.
template <class Number, bool kWhole>
__device__ __forceinline__ float dot_of_lane(const uint16_t* a, const uint16_t* b, int dim) {
    float sum = 0;
    for (int column = static_cast<int>(threadIdx.x % kRowLanes) * 8; column < dim; column += 8 * kRowLanes) {
        if constexpr (kWhole) {
            const uint4 x = *reinterpret_cast<const uint4*>(a + column);
            const uint4 y = *reinterpret_cast<const uint4*>(b + column);
            const uint32_t p[4] = {x.x, x.y, x.z, x.w};
            const uint32_t q[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sum = __fmaf_rn(Number::low(p[i]), Number::low(q[i]), sum);
                sum = __fmaf_rn(Number::high(p[i]), Number::high(q[i]), sum);
            }
        } else {
            for (int i = column; i < min(column + 8, dim); ++i)
                sum = __fmaf_rn(Number::low(a[i]), Number::low(b[i]), sum);
        }
    }
    return sum;
}

template <class Number>
__global__ void __launch_bounds__(kRowThreads) prepare_kernel(const __grid_constant__ PrepareArgs args) {
#if __CUDA_ARCH__ >= 800
    const uint32_t blocks = static_cast<uint32_t>(args.padded) / kBlockRows;
    const uint32_t unit = blockIdx.x / blocks;
    const int row = static_cast<int>((blockIdx.x - unit * blocks) * kBlockRows + threadIdx.x / kRowLanes);
    const bool there = row < args.queries;
    const uint32_t batch = unit / args.heads;
    const uint32_t head = unit - batch * args.heads;
    float D = 0;
    if (there) {
        const auto rows_of = [&](const Operand& of) {
            return static_cast<const uint16_t*>(of.at) + batch * of.batch + head * of.head + row * of.row;
        };
        D = args.whole_pieces ? dot_of_lane<Number, true>(rows_of(args.dout), rows_of(args.out), args.dim)
                              : dot_of_lane<Number, false>(rows_of(args.dout), rows_of(args.out), args.dim);
    }
#pragma unroll
    for (int distance = 1; distance < kRowLanes; distance *= 2)
        D = __fadd_rn(D, __shfl_xor_sync(kAllLanes, D, distance));
    if (threadIdx.x % kRowLanes != 0) return;
    const int64_t at = int64_t{unit} * args.padded + row;
    float level = -half_forward::minus_infinity(); // P is 0
    float origin = 0;
    if (there) {
        const RowStatistics is = args.statistics[unit * args.statistics_unit + row];
        if (is.l > 0) {
            level = __fadd_rn(is.M, log2f(is.l));
            origin = is.origin;
        }
    }
    if (origin != 0) *args.far_rows = 1;
    args.levels[at] = level;
    args.origins[at] = origin;
    args.products[at] = D;
#else
    __trap();
#endif
}

// A group's sums of dQ for a tile: a thread has 8 times four of them, kGroupThreads apart.
template <class Number, class T>
__global__ void __launch_bounds__(kSumThreads) finish_kernel(const __grid_constant__ KernelArgs args) {
#if __CUDA_ARCH__ >= 800
    const auto tiles = static_cast<uint32_t>(args.padded / T::kQueries);
    const uint32_t group = blockIdx.x % T::kGroups;
    const uint32_t unit = blockIdx.x / T::kGroups / tiles;
    const auto tile = static_cast<int>(blockIdx.x / T::kGroups - unit * tiles);
    const int first = tile * T::kQueries + (T::kSplitsColumns ? 0 : static_cast<int>(group) * 64);
    if (first >= args.view.queries) return;
    float o[T::kGroupSums];
    if (args.view.template tiles<T::kKeys>(tile * T::kQueries, (tile + 1) * T::kQueries) > 0) {
        const auto* from = reinterpret_cast<const float4*>(args.sums + int64_t{blockIdx.x} * T::kChunk) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < T::kGroupSums / 4; ++i) {
            const float4 x = from[i * kSumThreads];
            o[4 * i] = x.x, o[4 * i + 1] = x.y, o[4 * i + 2] = x.z, o[4 * i + 3] = x.w;
        }
    } else {
#pragma unroll
        for (float& x : o) x = 0;
    }
    const int row = first + static_cast<int>(threadIdx.x / kWarpSize * 16 + threadIdx.x % kWarpSize / 4);
    const int column = T::kSplitsColumns ? static_cast<int>(group) * 64 : 0;
    const uint32_t batch = unit / args.heads;
    uint16_t* const head = static_cast<uint16_t*>(args.dq.at) + batch * args.dq.batch +
                           (unit - batch * args.heads) * args.dq.head + column;
    OutputRows to{{nullptr, nullptr}, args.dim - column};
#pragma unroll
    for (int i = 0; i < 2; ++i)
        if (row + 8 * i < args.view.queries) to.row[i] = head + (row + 8 * i) * args.dq.row;
    const float factor[2] = {args.scale, args.scale};
    half_forward::store_rows<GradientsOf<Number>>(o, factor, to);
#else
    __trap();
#endif
}

template <class Number, class T>
void finish_for(const Args& args, cudaStream_t stream) {
    const KernelArgs kernel_args(args, T::kKeys);
    const auto blocks = static_cast<unsigned>(args.forward.units() * (kernel_args.padded / T::kQueries) * T::kGroups);
    finish_kernel<Number, T><<<blocks, kSumThreads, 0, stream>>>(kernel_args);
    HW4_CUDA_LAUNCHED("finish_queries");
}

} // namespace

void prepare_rows(const Args& args, cudaStream_t stream) {
    const half_forward::Args& forward = args.forward;
    const Scratch at(args);
    auto* const scratch = static_cast<unsigned char*>(args.scratch);
    PrepareArgs prepare{};
    prepare.out = forward.out;
    prepare.dout = args.dout;
    prepare.statistics = forward.statistics;
    prepare.statistics_unit = forward.statistics_unit;
    auto* const counters = reinterpret_cast<unsigned*>(scratch + at.counters);
    HW4_CUDA(cudaMemsetAsync(counters, 0, static_cast<size_t>(at.counter_count) * sizeof(unsigned), stream));
    prepare.far_rows = counters + kFarRows;
    prepare.levels = reinterpret_cast<float*>(scratch + at.levels);
    prepare.origins = reinterpret_cast<float*>(scratch + at.origins);
    prepare.products = reinterpret_cast<float*>(scratch + at.products);
    prepare.heads = static_cast<uint32_t>(forward.heads);
    prepare.queries = static_cast<int>(forward.queries);
    prepare.padded = static_cast<int>(padded_queries(forward.queries));
    prepare.dim = static_cast<int>(forward.dim);
    prepare.whole_pieces = forward.dim % 8 == 0 && takes_pieces(forward.out) && takes_pieces(args.dout);
    const auto blocks = static_cast<unsigned>(forward.units() * (prepare.padded / kBlockRows));
    const auto kernel = forward.type == NumberType::bf16 ? prepare_kernel<Bf16> : prepare_kernel<Fp16>;
    kernel<<<blocks, kRowThreads, 0, stream>>>(prepare);
    HW4_CUDA_LAUNCHED("prepare_rows");
}

void finish_queries(const Args& args, cudaStream_t stream) {
    const bool bf16 = args.forward.type == NumberType::bf16;
    if (args.forward.dim <= 64)
        bf16 ? finish_for<Bf16, Sizes64>(args, stream) : finish_for<Fp16, Sizes64>(args, stream);
    else
        bf16 ? finish_for<Bf16, Sizes128>(args, stream) : finish_for<Fp16, Sizes128>(args, stream);
}

} // namespace hw4::gpu::half_backward
