// The pre-pass: K and V of every tile of 64 keys to digits, in the order in which the next kernel copies them.
#include "prepare.h"

#include "../check.h"
#include "digits.cuh"
#include "launch_early.cuh"

namespace hw4::gpu::fixed_point {
namespace {

template <int kDim>
constexpr int kThreads = kDim < 64 ? 128 : 256; // 16 numbers each, or more

// Which numbers of a tile a thread has, four columns at a time, and where their digits go.
//
// Of K, four columns of a key are a word of each plane. Neighbours have a key's columns.
template <int kDim>
struct KeyOrder {
    using Layout = TileLayout<kDim>;
    static constexpr int kGroups = kDim / 4; // of columns
    static constexpr int kEach = kTileKeys * kGroups / kThreads<kDim>;

    static __device__ int key(int i) {
        return static_cast<int>(threadIdx.x) / kGroups + i * (kThreads<kDim> / kGroups);
    }
    static __device__ int column(int) { return static_cast<int>(threadIdx.x) % kGroups * 4; }

    template <class Quantise>
    static __device__ __forceinline__ void store(const float4 (&x)[kEach], const Quantise& quantised,
                                                 unsigned char* tile) {
#pragma unroll
        for (int i = 0; i < kEach; ++i)
            planes_of(x[i], quantised).store(tile + swizzled<kDim>(key(i), column(i)), Layout::kPlane);
    }
};

// Of V, four keys of a column are a word of each plane: a thread has four columns of four keys. Neighbours have the
// keys of the same columns, which follow one another in the planes.
template <int kDim>
struct ValueOrder {
    using Layout = TileLayout<kDim>;
    static constexpr int kWords = kTileKeys / 4; // of a column
    static constexpr int kEach = kTileKeys * kDim / 4 / kThreads<kDim>;
    static_assert(kEach % 4 == 0 && kThreads<kDim> % kWords == 0 && Layout::kColumns % 4 == 0);

    static __device__ int word() { return static_cast<int>(threadIdx.x) % kWords; }
    static __device__ int key(int i) { return word() / 4 * 16 + word() % 4 * 2 + i % 4 / 2 * 8 + i % 2; }
    static __device__ int column(int i) {
        return (static_cast<int>(threadIdx.x) / kWords + i / 4 * (kThreads<kDim> / kWords)) * 4;
    }

    template <class Quantise>
    static __device__ __forceinline__ void store(const float4 (&x)[kEach], const Quantise& quantised,
                                                 unsigned char* tile) {
#pragma unroll
        for (int i = 0; i < kEach; i += 4) {
            unsigned char* const part = tile + Layout::kValues + column(i) / Layout::kColumns * Layout::kPart;
            const auto store_column = [&](int further, float4 of_keys) {
                const int at = swizzled<kTileKeys>(column(i) % Layout::kColumns + further, word() * 4);
                planes_of(of_keys, quantised).store(part + at, Layout::kPartPlane);
            };
            store_column(0, make_float4(x[i].x, x[i + 1].x, x[i + 2].x, x[i + 3].x));
            store_column(1, make_float4(x[i].y, x[i + 1].y, x[i + 2].y, x[i + 3].y));
            store_column(2, make_float4(x[i].z, x[i + 1].z, x[i + 2].z, x[i + 3].z));
            store_column(3, make_float4(x[i].w, x[i + 1].w, x[i + 2].w, x[i + 3].w));
        }
    }
};

// 64 rows of a matrix, or the last ones: those that do not exist are zeros.
template <int kDim, class Order>
struct TileOfFloats {
    float4 x[Order::kEach];

    __device__ __forceinline__ void load(const float* matrix, size_t stride, int rows, int dim) {
        const bool whole = dim == kDim && rows == kTileKeys;
#pragma unroll
        for (int i = 0; i < Order::kEach; ++i) {
            const float* const from = matrix + static_cast<size_t>(Order::key(i)) * stride;
            if (whole)
                x[i] = *reinterpret_cast<const float4*>(from + Order::column(i));
            else
                x[i] = Order::key(i) < rows ? four_columns(from, Order::column(i), dim, dim % 4 == 0)
                                            : make_float4(0, 0, 0, 0);
        }
    }

    __device__ __forceinline__ float largest() const {
        float most = 0;
#pragma unroll
        for (const float4& four : x) most = larger_magnitude(four, most);
        return most;
    }

    // Its digits.
    __device__ __forceinline__ void store(float largest_of_tile, int exponent, unsigned char* tile) const {
        if (fixed::scales_at_once(largest_of_tile, exponent)) {
            const float factor = fixed::factor_at_once(1, exponent);
            Order::store(
                x, [&](float n) { return fixed::nearest(n * factor); }, tile);
        } else {
            const fixed::Factors scale = fixed::factors(exponent);
            Order::store(
                x, [&](float n) { return fixed::quantised(n, scale); }, tile);
        }
    }
};

// A number that, among all threads, is at least every key's sum of squares. A key's columns are neighbours; where they
// are two warps wide, each half counts twice.
template <int kDim>
__device__ __forceinline__ float square_bound(const TileOfFloats<kDim, KeyOrder<kDim>>& k) {
    using Order = KeyOrder<kDim>;
    constexpr int kLanes = Order::kGroups < 32 ? Order::kGroups : 32;
    float squares[Order::kEach];
#pragma unroll
    for (int i = 0; i < Order::kEach; ++i) squares[i] = added_squares(k.x[i], 0);
    return combined_row<kLanes>(squares, [](float a, float b) { return a + b; }) * (Order::kGroups / kLanes);
}

// The largest of all threads' values, none of which is negative, for every one of them. Once in a kernel.
template <int kWarps, int kValues>
__device__ __forceinline__ void find_largest_of_block(float (&values)[kValues]) {
    __shared__ float of_warps[kValues][kWarps];
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
        const float of_warp = largest_of_warp(values[i]);
        if (threadIdx.x % 32 == 0) of_warps[i][threadIdx.x / 32] = of_warp;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] = largest_of_warp(of_warps[i][threadIdx.x % kWarps]);
}

// None of them is negative, so they are ordered like their bits.
__device__ __forceinline__ void raise(float* largest, float to) {
    atomicMax(reinterpret_cast<unsigned*>(largest), bits_of(to));
}

// A block for each tile of K, and one for each tile of V.
template <int kDim>
__global__ void __launch_bounds__(kThreads<kDim>) prepare_kernel(KernelArgs args, Prepared to) {
    constexpr int kWarps = kThreads<kDim> / 32;
    let_next_kernel_start();
    const auto tiles = static_cast<uint32_t>(tiles_of(args.tokens));
    const uint32_t index = blockIdx.x / 2; // batch after batch
    const bool values = blockIdx.x % 2 != 0;
    const int64_t batch = index / tiles;
    const int64_t first_key = int64_t{index % tiles} * kTileKeys;
    const int keys = static_cast<int>(min(int64_t{kTileKeys}, args.tokens - first_key));
    const int64_t row = (3 * batch + (values ? 2 : 1)) * args.tokens + first_key;
    const float* const from = args.qkv + static_cast<size_t>(row) * args.qkv_stride;
    unsigned char* const image = to.tiles + size_t{index} * TileLayout<kDim>::kStride;
    auto* const scales = reinterpret_cast<TileScales*>(image + TileLayout<kDim>::kScales);

    if (values) {
        TileOfFloats<kDim, ValueOrder<kDim>> tile;
        tile.load(from, args.qkv_stride, keys, args.dim);
        float most[] = {tile.largest()};
        find_largest_of_block<kWarps>(most);
        const int exponent = fixed::exponent_for(most[0]);
        if (threadIdx.x == 0) {
            scales->v_exponent = exponent;
            raise(to.largest_value + batch, most[0]);
        }
        tile.store(most[0], exponent, image);
    } else {
        TileOfFloats<kDim, KeyOrder<kDim>> tile;
        tile.load(from, args.qkv_stride, keys, args.dim);
        float most[] = {tile.largest(), square_bound<kDim>(tile)};
        find_largest_of_block<kWarps>(most);
        const int exponent = fixed::exponent_for(most[0]);
        if (threadIdx.x == 0) {
            scales->k_exponent = exponent;
            scales->unused = 0;
            raise(to.longest_key + batch, length_bound(most[1]));
        }
        tile.store(most[0], exponent, image);
    }
}

template <int kDim>
void launch(const KernelArgs& args, const Prepared& to, cudaStream_t stream) {
    const int64_t blocks = 2 * args.batches * tiles_of(args.tokens);
    prepare_kernel<kDim><<<static_cast<unsigned>(blocks), kThreads<kDim>, 0, stream>>>(args, to);
    HW4_CUDA_LAUNCHED("prepare_kernel");
}

} // namespace

Prepared launch_prepare(const KernelArgs& args, size_t cleared_bytes, cudaStream_t stream) {
    const Prepared to = prepared_at(args.scratch, args.batches, args.tokens, args.dim);
    auto* const first = reinterpret_cast<unsigned char*>(to.largest_value); // of what is raised from 0
    HW4_CUDA(cudaMemsetAsync(first, 0, static_cast<size_t>(to.end - first) + cleared_bytes, stream));
    switch (padded_columns(args.dim)) {
    case 32: launch<32>(args, to, stream); break;
    case 64: launch<64>(args, to, stream); break;
    case 128: launch<128>(args, to, stream); break;
    default: launch<256>(args, to, stream);
    }
    return to;
}

} // namespace hw4::gpu::fixed_point
