// Attention under the contract `fixed` on the integer tensor cores of any card from compute capability 8.0 on. A block
// is one group of 128 threads with 64 query rows, each warp with 16 of them; tiles of keys are copied to shared memory
// in the background, K of the next tile while V of this one is multiplied, where there is room for both.
#pragma once

#include "src/gpu/common/async_copy.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/fixed/forward/group.cuh"

namespace hw4::gpu::fixed_point {

template <int kDim_>
struct MmaVariant {
    static constexpr int kDim = kDim_;
    static constexpr bool kBoth = kDim < 256; // K and V have a buffer each
};

// The planes of K of a tile are as many bytes as those of V.
template <class T>
struct MmaMemory {
    alignas(16) unsigned char planes[T::kBoth ? 2 : 1][TileLayout<T::kDim>::kValues];
    Queries<T::kDim> queries;
};

// sums += A * B^T for 16 rows and 8 columns over 32 bytes of each.
template <bool kSigned>
__device__ __forceinline__ void multiply(int32_t* sums, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    if constexpr (kSigned)
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Four bytes of a row of a plane.
template <int kRowBytes>
__device__ __forceinline__ uint32_t word_at(const unsigned char* plane, int row, int at) {
    return *reinterpret_cast<const uint32_t*>(plane + swizzled<kRowBytes>(row, at));
}

// The six products of three digits of A with those of B's planes, for 8 columns; kSigned: A's digits have a sign.
template <int kRowBytes, bool kSigned, int kN>
__device__ __forceinline__ void multiply_digits(Levels<kN>& sums, int column_group, const uint32_t (&a)[kDigits][4],
                                                const unsigned char* planes, int plane_bytes, int row, int at) {
    uint32_t b[kDigits][2];
#pragma unroll
    for (int digit = 0; digit < kDigits; ++digit) {
        b[digit][0] = word_at<kRowBytes>(planes + digit * plane_bytes, row, at);
        b[digit][1] = word_at<kRowBytes>(planes + digit * plane_bytes, row, at + 16);
    }
    int32_t* const l2 = sums.l + 4 * column_group;
    int32_t* const l1 = l2 + kN;
    int32_t* const l0 = l1 + kN;
    multiply<kSigned>(l0, a[2], b[2][0], b[2][1]);
    multiply<kSigned>(l1, a[2], b[1][0], b[1][1]);
    multiply<kSigned>(l1, a[1], b[2][0], b[2][1]);
    multiply<kSigned>(l2, a[2], b[0][0], b[0][1]);
    multiply<kSigned>(l2, a[1], b[1][0], b[1][1]);
    multiply<kSigned>(l2, a[0], b[2][0], b[2][1]);
}

// The products of a block, and the copies before them.
template <class T>
struct MmaProducts {
    using Layout = TileLayout<T::kDim>;
    static constexpr bool kMaySteady = false;
    static constexpr bool kMasked = true; // one code for all masks
    static __device__ int seen_more(const ForwardArgs& args) { return args.sight.more; }
    MmaMemory<T>& memory;
    const unsigned char* tiles; // of the head of K and V
    unsigned count;

    static __device__ int lane_row() { return static_cast<int>(threadIdx.x) % 32 / 4; }
    static __device__ int lane_byte() { return static_cast<int>(threadIdx.x) % 4 * 4; }

    __device__ const unsigned char* image(unsigned tile) const {
        return tiles + static_cast<size_t>(tile) * Layout::kStride;
    }
    __device__ TileScales scales(unsigned tile) const {
        return *reinterpret_cast<const TileScales*>(image(tile) + Layout::kScales);
    }

    // Of K (0) or V (1). One group of copies, though it be empty, so that counting them is right.
    __device__ void fetch(unsigned tile, int matrix) const {
        static_assert(Layout::kValues == Layout::kScales - Layout::kValues, "K and V are as large");
        if (tile < count) {
            const unsigned char* from = image(tile) + matrix * Layout::kValues;
            unsigned char* to = memory.planes[T::kBoth ? matrix : 0];
            for (int at = static_cast<int>(threadIdx.x) * 16; at < Layout::kValues; at += kGroupThreads * 16)
                copy_async<16>(to + at, from + at);
        }
        end_group_of_copies();
    }

    __device__ void start() const {
        if (!T::kBoth) return;
        fetch(0, 0);
        fetch(0, 1);
    }

    __device__ void wait_for(unsigned tile, int matrix) const {
        if (!T::kBoth) {
            fetch(tile, matrix);
            wait_for_copies<0>();
        } else {
            wait_for_copies<1>();
        }
        __syncthreads();
    }

    __device__ void fetch_next(unsigned tile, int matrix) const {
        __syncthreads();
        if (T::kBoth) fetch(tile + 1, matrix);
    }

    __device__ __forceinline__ void begin_scores(unsigned tile, ScoreLevels& s) const {
        clear(s);
        wait_for(tile, 0);
        const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane_row();
#pragma unroll(T::kDim > 64 ? 1 : T::kDim / 32)
        for (int at = lane_byte(); at < T::kDim; at += 32) {
            uint32_t a[kDigits][4];
#pragma unroll
            for (int digit = 0; digit < kDigits; ++digit)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    a[digit][i] = word_at<T::kDim>(memory.queries.planes[digit], row + i % 2 * 8, at + i / 2 * 16);
#pragma unroll
            for (int keys = 0; keys < kTileKeys / 8; ++keys)
                multiply_digits<T::kDim, true>(s, keys, a, memory.planes[0], Layout::kPlane, 8 * keys + lane_row(), at);
        }
    }

    __device__ __forceinline__ void end_scores(unsigned tile, const ScoreLevels&) const { fetch_next(tile, 0); }

    __device__ __forceinline__ void begin_values(unsigned tile, int part, const WeightPlanes& planes,
                                                 Levels<Layout::kColumns / 2>& y) const {
        clear(y);
        if (part == 0) wait_for(tile, 1);
        const unsigned char* const v = memory.planes[T::kBoth ? 1 : 0] + part * Layout::kPart;
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int columns = 0; columns < Layout::kColumns / 8; ++columns)
                multiply_digits<kTileKeys, false>(y, columns, planes.half[half], v, Layout::kPartPlane,
                                                  8 * columns + lane_row(), 32 * half + lane_byte());
    }

    __device__ __forceinline__ void end_values(unsigned tile, int part, const Levels<Layout::kColumns / 2>&) const {
        if (part == Layout::kParts - 1) fetch_next(tile, 1);
    }

    __device__ __forceinline__ void leave() const {}

    template <int kN>
    static __device__ __forceinline__ void clear(Levels<kN>& sums) {
#pragma unroll
        for (int i = 0; i < kDigits * kN; ++i) sums.l[i] = 0;
    }
};

template <class T>
__global__ void __launch_bounds__(kGroupThreads, T::kDim > 128 ? 1 : 2)
    mma_kernel(const __grid_constant__ ForwardArgs args, Prepared prepared) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) unsigned char mma_memory[];
    auto& memory = *reinterpret_cast<MmaMemory<T>*>(mma_memory);
    const auto groups = static_cast<uint32_t>(jobs_for(args.queries, 1));
    const auto rows_of_block = [&] { // asked again rather than kept in registers over the loop; at 256 all is spilled
        uint32_t block;
        asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
        return GroupRows::of(args, block / groups, block % groups);
    };
    const GroupRows where = rows_of_block();
    const auto first_tile = static_cast<size_t>(args.kv_unit(where.unit) * tiles_of(args.keys));
    const MmaProducts<T> products{memory, prepared.tiles + first_tile * TileLayout<T::kDim>::kStride,
                                  where.end_tile(args)};
    products.start();
    ComingQueries<T::kDim> queries;
    queries.fetch(args, prepared, where);
    queries.store(args, memory.queries);
    __syncthreads();

    const Outlook outlook = outlook_of<MmaProducts<T>::kMaySteady>(memory.queries, queries.facts);
    Group<MmaProducts<T>> work(products);
    work.begin(memory.queries);
    work.attend(memory.queries, args, where, 0, products.count, outlook);
    work.store(memory.queries, args, T::kDim > 128 ? where : rows_of_block());
#else
    __trap();
#endif
}

template <int kDim>
void launch_mma(const ForwardArgs& args, const Prepared& prepared, cudaStream_t stream) {
    using T = MmaVariant<kDim>;
    constexpr size_t kBytes = sizeof(MmaMemory<T>);
    const auto kernel = mma_kernel<T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int64_t blocks = args.units * jobs_for(args.queries, 1);
    kernel<<<static_cast<unsigned>(blocks), kGroupThreads, kBytes, stream>>>(args, prepared);
    HW4_CUDA_LAUNCHED("mma_kernel");
}

} // namespace hw4::gpu::fixed_point
