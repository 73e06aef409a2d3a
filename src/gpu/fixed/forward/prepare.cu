// The pre-pass: K and V of every tile of keys to digits, in the order in which the next kernel copies them.
#include "src/gpu/fixed/forward/prepare.h"

#include "src/gpu/common/early_launch.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/fixed/forward/digits.cuh"
#include "src/gpu/fixed/forward/elements.cuh"

namespace hw4::gpu::fixed_point {
namespace {

// Of a block: a thread has as many numbers in its registers whichever contract it is.
template <class Rules, int kDim>
constexpr int kThreadsFor = Rules::kTileKeys > 64 && kDim > 64 ? 512 : 256;

// The largest of all threads' values, none of which is negative, for every one of them. Once in a kernel.
template <int kValues, int kWarps>
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

// A tile's rows of a matrix: a thread has four columns of each so many rows; with two digits, of two neighbours each
// time, whose digits make a word.
template <class Rules, int kDim>
struct TileOfFloats {
    static constexpr int kTileKeys = Rules::kTileKeys;
    static constexpr int kThreads = kThreadsFor<Rules, kDim>;
    static constexpr int kTogether = Rules::kDigits == 2 ? 2 : 1;
    static constexpr int kGroups = kDim / 4; // in a row
    static constexpr int kEach = kTileKeys * kGroups / kThreads;
    static constexpr int kRowsAtOnce = kThreads / kGroups;
    float4 x[kEach];

    static __device__ int row(int i) {
        return kTogether * (static_cast<int>(threadIdx.x) / kGroups + i / kTogether * kRowsAtOnce) + i % kTogether;
    }
    static __device__ int column() { return static_cast<int>(threadIdx.x) % kGroups * 4; }

    // Of elements that are stored as ElementType says.
    template <class ElementType, class Stored>
    __device__ void load(const Stored* matrix, size_t stride, int rows, int dim) {
        const Stored* first = matrix + static_cast<size_t>(row(0)) * stride;
        const bool whole = dim == kDim && rows == kTileKeys;
        const bool aligned = dim % 4 == 0;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const Stored* const from = first + static_cast<size_t>(row(i) - row(0)) * stride;
            if (whole)
                x[i] = ElementType::floats(four_at(from, column()));
            else
                x[i] = ElementType::floats(row(i) < rows ? four_columns(from, column(), dim, aligned) : Four<Stored>{});
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
template <class Rules, int kDim>
__device__ void keys_to_planes(const TileOfFloats<Rules, kDim>& k, fixed::Factors scale, unsigned char* tile) {
    using Layout = TileLayout<Rules, kDim>;
#pragma unroll
    for (int i = 0; i < k.kEach; ++i) {
        const auto planes = planes_of<Rules::kDigits>(k.x[i], [&](float n) { return fixed::quantised(n, scale); });
        planes.store(tile + swizzled<kDim>(k.row(i), k.column()), Layout::kPlane);
    }
}

// A tile's numbers on their way from rows to columns, as words of biased digits: of three a word each, of two a word
// for both of two neighbouring rows.
template <class Rules, int kDim>
struct ValueWords {
    static constexpr int kOfWord = TileOfFloats<Rules, kDim>::kTogether;
    uint32_t words[Rules::kTileKeys / kOfWord][kDim + 1];

    __device__ __forceinline__ void put(const TileOfFloats<Rules, kDim>& v, int i, fixed::Factors scale) {
        const auto digits = [&](float n) { return biased_digits_at<Rules::kDigits>(n, scale); };
        uint32_t* const to = words[v.row(i) / kOfWord] + v.column();
        const float* const x = &v.x[i].x;
        const float* const next = &v.x[i + kOfWord - 1].x;
#pragma unroll
        for (int column = 0; column < 4; ++column)
            to[column] =
                kOfWord == 1 ? digits(x[column]) : __byte_perm(digits(x[column]), digits(next[column]), 0x5410);
    }

    // Of keys `key`, the next one, and those 8 further on.
    __device__ __forceinline__ Planes<Rules::kDigits> take(int key, int column) const {
        if constexpr (kOfWord == 1)
            return planes_of_biased<3>(words[key][column], words[key + 1][column], words[key + 8][column],
                                       words[key + 9][column]);
        const uint32_t a = words[key / 2][column];
        const uint32_t b = words[key / 2 + 4][column];
        Planes<Rules::kDigits> planes{};
        planes.word[0] = __byte_perm(a, b, 0x6420) ^ 0x80808080u;
        planes.word[1] = __byte_perm(a, b, 0x7531) ^ 0x80808080u;
        return planes;
    }
};

// Through shared memory, since V's rows become columns: then four keys' digits to a word for each place.
template <class Rules, int kDim>
__device__ void values_to_planes(const TileOfFloats<Rules, kDim>& v, fixed::Factors scale,
                                 ValueWords<Rules, kDim>& values, unsigned char* tile) {
    using Layout = TileLayout<Rules, kDim>;
#pragma unroll
    for (int i = 0; i < v.kEach; i += v.kTogether) values.put(v, i, scale);
    __syncthreads();
    constexpr int kWords = Rules::kTileKeys / 4; // of a row
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kDim * kWords; i += v.kThreads) {
        const int column = i / kWords;
        const int place = i % kWords * 4;
        const int key = (place & ~15) + (place & 15) / 2;
        unsigned char* const part = tile + Layout::kValues + column / Layout::kColumns * Layout::kPart;
        values.take(key, column)
            .store(part + swizzled<Rules::kTileKeys>(column % Layout::kColumns, place), Layout::kPartPlane);
    }
}

template <class Rules, int kDim>
struct PrepareMemory {
    ValueWords<Rules, kDim> values;
    float reduction[2][kThreadsFor<Rules, kDim> / 32];
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
template <class Rules, int kDim, class ElementType>
__global__ void __launch_bounds__(kThreadsFor<Rules, kDim>)
    prepare_kernel(const __grid_constant__ ForwardArgs args, Facts facts, Prepared to) {
    using Layout = TileLayout<Rules, kDim>;
    extern __shared__ __align__(16) unsigned char prepare_memory[];
    auto& memory = *reinterpret_cast<PrepareMemory<Rules, kDim>*>(prepare_memory);
    let_next_kernel_start();
    const auto tiles = static_cast<uint32_t>(tiles_of<Rules>(args.keys));
    const uint32_t index = blockIdx.x / 2; // head after head
    const bool values = blockIdx.x % 2 != 0;
    const uint32_t kv_unit = index / tiles;
    const int64_t first_key = int64_t{index % tiles} * Rules::kTileKeys;
    const int keys = static_cast<int>(min(int64_t{Rules::kTileKeys}, args.keys - first_key));
    using Stored = typename ElementType::Stored;
    const Heads<const float>& matrix = values ? args.v : args.k;
    const Stored* const from = matrix.as<const Stored>().of(kv_unit) + static_cast<size_t>(first_key) * matrix.row;

    TileOfFloats<Rules, kDim> tile;
    tile.template load<ElementType>(from, matrix.row, keys, args.dim);
    unsigned char* const image = to.tiles + size_t{index} * Layout::kStride;
    auto* const scales = reinterpret_cast<TileScales*>(image + Layout::kScales);
    if (values) {
        float most[] = {tile.largest()};
        find_largest_of_block(most, memory.reduction);
        const int exponent = fixed::exponent_of_tile<Rules::kDigits>(most[0]);
        if (threadIdx.x == 0) {
            scales->v_exponent = exponent;
            add_below(to.heads[kv_unit].v, exponent);
            if (facts == Facts::all) add_above(to.heads[kv_unit].v, exponent);
        }
        values_to_planes(tile, fixed::tile_factors(exponent), memory.values, image);
    } else {
        float most[] = {tile.largest(), Rules::kNeedsLengths ? tile.largest_square() : 0.0f};
        find_largest_of_block(most, memory.reduction);
        const int exponent = fixed::exponent_of_tile<Rules::kDigits>(most[0]);
        if (threadIdx.x == 0) {
            scales->k_exponent = exponent;
            scales->unused = 0;
            if (Rules::kNeedsLengths) raise(to.heads[kv_unit].longest_key, length_bound(most[1]));
            if (facts == Facts::all) {
                add_below(to.heads[kv_unit].k, exponent);
                add_above(to.heads[kv_unit].k, exponent);
            }
        }
        keys_to_planes(tile, fixed::tile_factors(exponent), image);
    }
}

template <class Rules, int kDim, class ElementType>
void launch_for(const ForwardArgs& args, Facts facts, const Prepared& to, cudaStream_t stream) {
    const auto kernel = prepare_kernel<Rules, kDim, ElementType>;
    constexpr size_t kBytes = sizeof(PrepareMemory<Rules, kDim>);
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int64_t blocks = int64_t{2} * args.kv_units() * tiles_of<Rules>(args.keys);
    kernel<<<static_cast<unsigned>(blocks), kThreadsFor<Rules, kDim>, kBytes, stream>>>(args, facts, to);
    HW4_CUDA_LAUNCHED("prepare_kernel");
}

template <class Rules, int kDim>
void launch(const ForwardArgs& args, Facts facts, const Prepared& to, cudaStream_t stream) {
    if constexpr (Rules::kTakesNarrow) {
        if (args.element == Element::bf16) return launch_for<Rules, kDim, NarrowElement<Bf16>>(args, facts, to, stream);
        if (args.element == Element::fp16) return launch_for<Rules, kDim, NarrowElement<Fp16>>(args, facts, to, stream);
    }
    return launch_for<Rules, kDim, Float32Element>(args, facts, to, stream);
}

} // namespace

template <class Rules>
Prepared launch_prepare(const ForwardArgs& args, Facts facts, size_t cleared_bytes, cudaStream_t stream) {
    const Prepared to = prepared_at<Rules>(args.scratch, args.kv_units(), args.keys, args.dim);
    auto* const first = reinterpret_cast<unsigned char*>(to.heads); // of what is raised from 0
    HW4_CUDA(cudaMemsetAsync(first, 0, static_cast<size_t>(to.end - first) + cleared_bytes, stream));
    switch (padded_columns(args.dim)) {
    case 32: launch<Rules, 32>(args, facts, to, stream); break;
    case 64: launch<Rules, 64>(args, facts, to, stream); break;
    case 128: launch<Rules, 128>(args, facts, to, stream); break;
    default: launch<Rules, 256>(args, facts, to, stream);
    }
    return to;
}

template Prepared launch_prepare<ThreeDigits>(const ForwardArgs&, Facts, size_t, cudaStream_t);
template Prepared launch_prepare<TwoDigits>(const ForwardArgs&, Facts, size_t, cudaStream_t);

} // namespace hw4::gpu::fixed_point
