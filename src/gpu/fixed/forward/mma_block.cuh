// A block on the integer tensor cores of any GPU from compute capability 8.0 on, under fixed or fixed16. It is one
// group of 128 threads with 64 query rows, 16 for each warp; tiles of keys are copied to shared memory asynchronously,
// K of the next tile while V of this one is multiplied, if both fit.
#pragma once

#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/fixed/forward/queries.cuh"

namespace hw4::gpu::fixed_point {

template <class Rules_, int kDim_>
struct MmaVariant {
    using Rules = Rules_;
    static constexpr int kDim = kDim_;
    using Layout = TileLayout<Rules, kDim>;
    static constexpr bool kBoth = kDim < 256; // K and V have a buffer each
};

// The planes of K of a tile have as many bytes as those of V.
template <class T>
struct MmaMemory {
    alignas(16) unsigned char planes[T::kBoth ? 2 : 1][T::Layout::kValues];
    Queries<typename T::Rules, T::kDim> queries;
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

// The handling of tiles that all blocks share, and the copies before that.
template <class T>
struct MmaTiles {
    using Layout = typename T::Layout;
    static constexpr bool kMasked = true; // one code for all masks
    static constexpr bool kManyJobs = false;
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

    // Fetches K (0) or V (1). Always one group of copies, even if it is empty, so that counting groups works.
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

    __device__ __forceinline__ void leave() const {}

    // A's words for a step of 32 columns of Q, of all digits.
    __device__ __forceinline__ void load_queries(int at, uint32_t (&a)[T::Rules::kDigits][4]) const {
        const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane_row();
#pragma unroll
        for (int digit = 0; digit < T::Rules::kDigits; ++digit)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                a[digit][i] = word_at<T::kDim>(memory.queries.planes[digit], row + i % 2 * 8, at + i / 2 * 16);
    }

    // The planes of V for a part of its columns.
    __device__ __forceinline__ const unsigned char* values(int part) const {
        return memory.planes[T::kBoth ? 1 : 0] + part * Layout::kPart;
    }
};

// Work is the work of a group on its rows under the contract, with arguments `told`.
template <class T, class Work>
__global__ void __launch_bounds__(kGroupThreads, T::kDim > 128 ? 1 : 2)
    mma_kernel(const __grid_constant__ ForwardArgs args, Prepared prepared, typename Work::Told told) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) unsigned char mma_memory[];
    auto& memory = *reinterpret_cast<MmaMemory<T>*>(mma_memory);
    const auto groups = static_cast<uint32_t>(jobs_for(args.queries, 1));
    const auto rows_of_block = [&] { // computed again, not kept in registers over the loop; at 256 all is spilled
        uint32_t block;
        asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
        return GroupRows::of(args, block / groups, block % groups);
    };
    const GroupRows where = rows_of_block();
    const auto first_tile = static_cast<size_t>(args.kv_unit(where.unit) * tiles_of<typename T::Rules>(args.keys));
    Work work(
        {memory, prepared.tiles + first_tile * T::Layout::kStride, where.template end_tile<typename T::Rules>(args)},
        told);
    work.products.start();
    ComingQueries<typename T::Rules, T::kDim> queries;
    queries.fetch(args, prepared, where);
    queries.store(args, memory.queries);
    __syncthreads();

    work.begin(memory.queries);
    work.attend(memory.queries, args, where, 0, work.products.count, queries.facts);
    work.store(memory.queries, args, T::kDim > 128 ? where : rows_of_block());
#else
    __trap();
#endif
}

template <class T, class Work>
void launch_mma(const ForwardArgs& args, const Prepared& prepared, const typename Work::Told& told,
                cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(MmaMemory<T>);
    const auto kernel = mma_kernel<T, Work>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int64_t blocks = args.units * jobs_for(args.queries, 1);
    kernel<<<static_cast<unsigned>(blocks), kGroupThreads, kBytes, stream>>>(args, prepared, told);
    HW4_CUDA_LAUNCHED("mma_kernel");
}

// The shared memory of a block for a head size.
template <class Rules>
size_t mma_memory_bytes(int64_t dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(MmaMemory<MmaVariant<Rules, 32>>);
    case 64: return sizeof(MmaMemory<MmaVariant<Rules, 64>>);
    case 128: return sizeof(MmaMemory<MmaVariant<Rules, 128>>);
    default: return sizeof(MmaMemory<MmaVariant<Rules, 256>>);
    }
}

} // namespace hw4::gpu::fixed_point
