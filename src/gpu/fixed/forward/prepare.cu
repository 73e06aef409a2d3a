// The pre-pass: K and V of every tile of 64 keys to digits, in the order in which the next kernel copies them.
#include "src/gpu/fixed/forward/prepare.h"

#include "src/gpu/common/early_launch.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/fixed/forward/digits.cuh"

namespace hw4::gpu::fixed_point {
namespace {

constexpr int kPrepareThreads = 256;

constexpr int kWarps = kPrepareThreads / 32;

// The largest of all threads' values, none of which is negative, for every one of them. Once in a kernel.
template <int kValues>
__device__ __forceinline__ void find_largest_of_block(float (&values)[kValues], float (*shared)[kWarps]) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
        const float of_warp = warp_max_of_magnitudes(values[i]);
        if (threadIdx.x % 32 == 0) shared[i][threadIdx.x / 32] = of_warp;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] = warp_max_of_magnitudes(shared[i][threadIdx.x % kWarps]);
}

// Rows [first, first + 64) of a matrix, each thread every 256th group of four columns.
template <int kDim>
struct TileOfFloats {
    static constexpr int kGroups = kDim / 4; // in a row
    static constexpr int kEach = kTileKeys * kGroups / kPrepareThreads;
    static constexpr int kRowsAtOnce = kPrepareThreads / kGroups;
    float4 x[kEach];

    static __device__ int row(int i) { return static_cast<int>(threadIdx.x) / kGroups + i * kRowsAtOnce; }
    static __device__ int column() { return static_cast<int>(threadIdx.x) % kGroups * 4; }

    __device__ void load(const float* matrix, size_t stride, int rows, int dim) {
        const float* from = matrix + static_cast<size_t>(row(0)) * stride;
        const bool whole = dim == kDim && rows == kTileKeys;
        const bool aligned = dim % 4 == 0;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            if (whole)
                x[i] = *reinterpret_cast<const float4*>(from + column());
            else
                x[i] = row(i) < rows ? four_columns(from, column(), dim, aligned) : make_float4(0, 0, 0, 0);
            from += kRowsAtOnce * stride;
        }
    }

    __device__ float largest() const {
        float most = 0;
#pragma unroll
        for (const float4& four : x) most = larger_magnitude(four, most);
        return most;
    }

    // No row's sum of squares is larger. A row's groups are neighbours; where it is two warps wide, each half counts
    // twice.
    __device__ float largest_square() const {
        constexpr int kLanes = kGroups < 32 ? kGroups : 32;
        float most = 0;
#pragma unroll
        for (const float4& four : x) {
            float sum = added_squares(four, 0);
#pragma unroll
            for (int lanes = 1; lanes < kLanes; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
            most = fmaxf(most, sum);
        }
        return most * (kGroups / kLanes);
    }
};

// Straight to global memory: four columns of a row are a word of each plane, and a row is written by neighbours.
template <int kDim>
__device__ void keys_to_planes(const TileOfFloats<kDim>& k, fixed::Factors scale, unsigned char* tile) {
    using Layout = TileLayout<kDim>;
#pragma unroll
    for (int i = 0; i < k.kEach; ++i) {
        const Planes planes = planes_of(k.x[i], [&](float n) { return fixed::quantised(n, scale); });
        planes.store(tile + swizzled<kDim>(k.row(i), k.column()), Layout::kPlane);
    }
}

// Through shared memory, since V's rows become columns: first every number's digits as a word, then four keys' words to
// a word for each place.
template <int kDim>
__device__ void values_to_planes(const TileOfFloats<kDim>& v, fixed::Factors scale, uint32_t (*words)[kDim + 1],
                                 unsigned char* tile) {
    using Layout = TileLayout<kDim>;
#pragma unroll
    for (int i = 0; i < v.kEach; ++i) {
        uint32_t* const to = words[v.row(i)] + v.column();
        to[0] = biased_digits_at(v.x[i].x, scale);
        to[1] = biased_digits_at(v.x[i].y, scale);
        to[2] = biased_digits_at(v.x[i].z, scale);
        to[3] = biased_digits_at(v.x[i].w, scale);
    }
    __syncthreads();
    constexpr int kWords = kTileKeys / 4; // of a row
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kDim * kWords; i += kPrepareThreads) {
        const int column = i / kWords;
        const int place = i % kWords * 4;
        const int key = (place & ~15) + (place & 15) / 2;
        const Planes planes = planes_of_biased(words[key][column], words[key + 1][column], words[key + 8][column],
                                               words[key + 9][column]);
        unsigned char* const part = tile + Layout::kValues + column / Layout::kColumns * Layout::kPart;
        planes.store(part + swizzled<kTileKeys>(column % Layout::kColumns, place), Layout::kPartPlane);
    }
}

template <int kDim>
struct PrepareMemory {
    uint32_t words[kTileKeys][kDim + 1];
    float reduction[2][kWarps];
};

__device__ __forceinline__ void add_above(ExponentRange& range, int exponent) {
    atomicMax(&range.above, ExponentRange::of(exponent).above);
}
__device__ __forceinline__ void add_below(ExponentRange& range, int exponent) {
    atomicMax(&range.below, ExponentRange::of(exponent).below);
}

// None of them is negative, so they are ordered like their bits.
__device__ __forceinline__ void raise(float& largest, float to) {
    atomicMax(reinterpret_cast<unsigned*>(&largest), bits_of(to));
}

// A block for each tile of K, and one for each tile of V.
template <int kDim>
__global__ void __launch_bounds__(kPrepareThreads)
    prepare_kernel(const __grid_constant__ ForwardArgs args, Facts facts, Prepared to) {
    extern __shared__ __align__(16) unsigned char prepare_memory[];
    auto& memory = *reinterpret_cast<PrepareMemory<kDim>*>(prepare_memory);
    let_next_kernel_start();
    const auto tiles = static_cast<uint32_t>(tiles_of(args.keys));
    const uint32_t index = blockIdx.x / 2; // head after head
    const bool values = blockIdx.x % 2 != 0;
    const uint32_t kv_unit = index / tiles;
    const int64_t first_key = int64_t{index % tiles} * kTileKeys;
    const int keys = static_cast<int>(min(int64_t{kTileKeys}, args.keys - first_key));
    const Heads<const float>& matrix = values ? args.v : args.k;
    const float* const from = matrix.of(kv_unit) + static_cast<size_t>(first_key) * matrix.row;

    TileOfFloats<kDim> tile;
    tile.load(from, matrix.row, keys, args.dim);
    unsigned char* const image = to.tiles + size_t{index} * TileLayout<kDim>::kStride;
    auto* const scales = reinterpret_cast<TileScales*>(image + TileLayout<kDim>::kScales);
    if (values) {
        float most[] = {tile.largest()};
        find_largest_of_block(most, memory.reduction);
        const int exponent = fixed::tile_exponent(most[0]);
        if (threadIdx.x == 0) {
            scales->v_exponent = exponent;
            add_below(to.heads[kv_unit].v, exponent);
            if (facts == Facts::all) add_above(to.heads[kv_unit].v, exponent);
        }
        values_to_planes(tile, fixed::tile_factors(exponent), memory.words, image);
    } else {
        float most[] = {tile.largest(), tile.largest_square()};
        find_largest_of_block(most, memory.reduction);
        const int exponent = fixed::tile_exponent(most[0]);
        if (threadIdx.x == 0) {
            scales->k_exponent = exponent;
            scales->unused = 0;
            raise(to.heads[kv_unit].longest_key, length_bound(most[1]));
            if (facts == Facts::all) {
                add_below(to.heads[kv_unit].k, exponent);
                add_above(to.heads[kv_unit].k, exponent);
            }
        }
        keys_to_planes(tile, fixed::tile_factors(exponent), image);
    }
}

template <int kDim>
void launch(const ForwardArgs& args, Facts facts, const Prepared& to, cudaStream_t stream) {
    const auto kernel = prepare_kernel<kDim>;
    constexpr size_t kBytes = sizeof(PrepareMemory<kDim>);
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int64_t blocks = int64_t{2} * args.kv_units() * tiles_of(args.keys);
    kernel<<<static_cast<unsigned>(blocks), kPrepareThreads, kBytes, stream>>>(args, facts, to);
    HW4_CUDA_LAUNCHED("prepare_kernel");
}

} // namespace

Prepared launch_prepare(const ForwardArgs& args, Facts facts, size_t cleared_bytes, cudaStream_t stream) {
    const Prepared to = prepared_at(args.scratch, args.kv_units(), args.keys, args.dim);
    auto* const first = reinterpret_cast<unsigned char*>(to.heads); // of what is raised from 0
    HW4_CUDA(cudaMemsetAsync(first, 0, static_cast<size_t>(to.end - first) + cleared_bytes, stream));
    switch (padded_columns(args.dim)) {
    case 32: launch<32>(args, facts, to, stream); break;
    case 64: launch<64>(args, facts, to, stream); break;
    case 128: launch<128>(args, facts, to, stream); break;
    default: launch<256>(args, facts, to, stream);
    }
    return to;
}

} // namespace hw4::gpu::fixed_point
