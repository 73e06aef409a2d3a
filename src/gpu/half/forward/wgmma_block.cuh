// Shared by the blocks of wgmma's kernels in half precision, forward and backward: panels of rows in shared memory,
// rings of stages, how blocks start, and groups that multiply beside one that starts all copies.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>

#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/common/warp.cuh"
#include "src/gpu/common/wgmma.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/half/forward/args.h"
#include "src/gpu/half/forward/numbers.cuh"

namespace hw4::gpu::half_forward {

// ---- Tensor maps of boxes of rows for the copy engine (cuTensorMapEncodeTiled), without linking the driver's library.

constexpr int kBoxColumns = 64; // 128 bytes, the longest swizzled row of a box

inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
    void* encode = nullptr;
    cudaDriverEntryPointQueryResult found{};
    HW4_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || encode == nullptr)
        throw Error(ExitCode::internal, "the CUDA driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(encode);
}

// Boxes of kBoxColumns columns of `rows` rows of one head; elements beyond dim or the last row are 0. In shared memory
// each row's 16-byte pieces are swizzled as wgmma reads them.
inline CUtensorMap tensor_map(NumberType type, const Operand& from, int64_t dim, int64_t rows, int64_t heads,
                              int64_t batches, int box_rows) {
    static const PFN_cuTensorMapEncodeTiled_v12000 encode = tensor_map_encoder();
    // An unused distance must be valid, too.
    const auto distance = [&](int64_t elements, int64_t count) {
        return static_cast<cuuint64_t>(2 * (count > 1 ? elements : (dim + 7) / 8 * 8));
    };
    const cuuint64_t sizes[] = {static_cast<cuuint64_t>(dim), static_cast<cuuint64_t>(rows),
                                static_cast<cuuint64_t>(heads), static_cast<cuuint64_t>(batches)};
    const cuuint64_t distances[] = {distance(from.row, rows), distance(from.head, heads),
                                    distance(from.batch, batches)};
    const cuuint32_t box[] = {kBoxColumns, static_cast<cuuint32_t>(box_rows), 1, 1};
    const cuuint32_t each[] = {1, 1, 1, 1};
    CUtensorMap map;
    const CUresult status =
        encode(&map, type == NumberType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4,
               from.at, sizes, distances, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS)
        throw Error(ExitCode::internal, "cuTensorMapEncodeTiled: error " + std::to_string(static_cast<int>(status)));
    return map;
}

// The map of a tensor with the queries' rows and heads, and of one with the keys'.
inline CUtensorMap query_map(const Args& args, const Operand& from, int box_rows) {
    return tensor_map(args.type, from, args.dim, args.queries, args.heads, args.batches, box_rows);
}
inline CUtensorMap key_map(const Args& args, const Operand& from, int box_rows) {
    return tensor_map(args.type, from, args.dim, args.keys, args.kv_heads, args.batches, box_rows);
}

// ---- Hopper's asynchronous matrix products of 16-bit numbers, summed up in float32

// One instruction: 64 rows and 16 columns of A, times kColumns columns of B. begin() and add(s, a, b): both from shared
// memory, row by row, so that 16 columns are 32 bytes of each row; begin_down() and add_down(): B not transposed,
// sixteen rows with the columns along them; add(s, words, b): the same, with A from four words per thread.
template <class Number, int kColumns>
struct Product;

#define HW4_BEGUN(x) "=f"(x)
#define HW4_ADDED(x) "+f"(x)
#define HW4_MULTIPLY(columns, sums, is, adds, types, operands, turned, ...)                                            \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\n"                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." types " {" HW4_NAMES_##sums                   \
                 "}, " HW4_##operands##_##sums ", p, 1, 1, " turned ";\n}\n"                                           \
                 : HW4_SUMS_##sums(is, 0)                                                                              \
                 : __VA_ARGS__)

#define HW4_PRODUCT(number, types, columns, sums)                                                                      \
    template <>                                                                                                        \
    struct Product<number, columns> {                                                                                  \
        static __device__ __forceinline__ void begin(float* s, uint64_t a, uint64_t b) {                               \
            HW4_MULTIPLY(columns, sums, HW4_BEGUN, "0", types, SHARED, "0, 0", "l"(a), "l"(b));                        \
        }                                                                                                              \
        static __device__ __forceinline__ void add(float* s, uint64_t a, uint64_t b) {                                 \
            HW4_MULTIPLY(columns, sums, HW4_ADDED, "1", types, SHARED, "0, 0", "l"(a), "l"(b));                        \
        }                                                                                                              \
        static __device__ __forceinline__ void begin_down(float* s, uint64_t a, uint64_t b) {                          \
            HW4_MULTIPLY(columns, sums, HW4_BEGUN, "0", types, SHARED, "0, 1", "l"(a), "l"(b));                        \
        }                                                                                                              \
        static __device__ __forceinline__ void add_down(float* s, uint64_t a, uint64_t b) {                            \
            HW4_MULTIPLY(columns, sums, HW4_ADDED, "1", types, SHARED, "0, 1", "l"(a), "l"(b));                        \
        }                                                                                                              \
        static __device__ __forceinline__ void add(float* s, const uint32_t (&a)[4], uint64_t b) {                     \
            HW4_MULTIPLY(columns, sums, HW4_ADDED, "1", types, WORDS, "1", HW4_A_WORDS, "l"(b));                       \
        }                                                                                                              \
    }

HW4_PRODUCT(Bf16, "bf16.bf16", 64, 32);
HW4_PRODUCT(Bf16, "bf16.bf16", 128, 64);
HW4_PRODUCT(Fp16, "f16.f16", 64, 32);
HW4_PRODUCT(Fp16, "f16.f16", 128, 64);

#undef HW4_BEGUN
#undef HW4_ADDED
#undef HW4_MULTIPLY
#undef HW4_PRODUCT

constexpr int kGroupThreads = 128;
constexpr int kBlockBytes = 227 * 1024; // of shared memory, at most

// How a block stores rows of queries and of keys, or similar rows: panels of 64 columns follow one another, rows of 128
// bytes each.
template <int kDim, int kQueryRows, int kKeyRows>
struct Panels {
    static constexpr int kPanels = kDim / kBoxColumns;
    static constexpr int kRowBytes = 2 * kBoxColumns;
    static constexpr int kQueryPanel = kQueryRows * kRowBytes;
    static constexpr int kKeyPanel = kKeyRows * kRowBytes;
    static constexpr int kQueryBytes = kPanels * kQueryPanel;
    static constexpr int kKeyBytes = kPanels * kKeyPanel;

    static_assert(kQueryBytes % 1024 == 0 && kKeyBytes % 1024 == 0, "the swizzle counts from there");
};

// Copies rows of a head from `row` on, the boxes of all panels. They arrive at `filled`, which expects their bytes.
template <int kPanels, int kPanelBytes>
__device__ __forceinline__ void copy_panels(SharedAddress to, const CUtensorMap& map, int row, int head, int batch,
                                            SharedAddress filled) {
    for (int panel = 0; panel < kPanels; ++panel)
        copy_box(to + panel * kPanelBytes, &map, panel * kBoxColumns, row, head, batch, filled);
}

// The barriers of a stage: one thread fills it, and `arrivals` arrivals release it.
__device__ __forceinline__ void init_stage(uint64_t& filled, uint64_t& released, int arrivals) {
    init_barrier(address_of(&filled), 1);
    init_barrier(address_of(&released), arrivals);
}

// One lane of each warp arrives, once the warp has converged.
__device__ __forceinline__ void arrive_by_warp(SharedAddress barrier) {
    __syncwarp();
    if (is_elected()) arrive(barrier);
}

template <class Memory>
__device__ __forceinline__ Memory& memory_of_block() {
    extern __shared__ __align__(1024) unsigned char block_memory[];
    if (address_of(block_memory) % 1024 != 0) __trap(); // the swizzle counts from there
    return *reinterpret_cast<Memory*>(block_memory);
}

// One thread calls it before all others begin: fetches maps early, and makes the barriers visible to the copy engine.
template <class Memory, class... Maps>
__device__ __forceinline__ void prepare_block(Memory& memory, const Maps&... maps) {
    (prefetch_map(&maps), ...);
    memory.init_barriers();
    publish_barriers();
    publish_to_async();
}

// The thread's group. The last group, which starts the copies, gives registers to the others.
template <class T>
__device__ __forceinline__ int begin_group() {
    const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (group == T::kGroups)
        give_registers_back<T::kCopierRegisters>();
    else
        take_registers<T::kGroupRegisters>();
    return group;
}

// A block for each job, or `most_blocks` blocks that take several each. `what` names the launch in messages.
template <class T, class Memory, class... Parameters>
void launch_blocks(const char* what, void (*kernel)(Parameters...), int64_t jobs, int64_t most_blocks,
                   cudaStream_t stream, const Parameters&... parameters) {
    constexpr size_t kBytes = sizeof(Memory);
    static_assert(kBytes <= kBlockBytes);
    check(HW4_CUDA_STATUS(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes)), what,
          __FILE__, __LINE__);
    const auto blocks = static_cast<unsigned>(std::min(jobs, most_blocks));
    kernel<<<blocks, T::kThreads, kBytes, stream>>>(parameters...);
    check(HW4_CUDA_STATUS(cudaGetLastError()), what, __FILE__, __LINE__);
}

} // namespace hw4::gpu::half_forward
