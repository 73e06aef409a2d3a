// Maps by which the copy engine finds boxes of rows (cuTensorMapEncodeTiled), without linking the driver's library.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include "src/gpu/device/check.h"
#include "src/gpu/half/forward/args.h"

namespace hw4::gpu::half_forward {

constexpr int kBoxColumns = 64; // 128 bytes, the longest row that a box can have and be swizzled

inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
    void* encode = nullptr;
    cudaDriverEntryPointQueryResult found{};
    HW4_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || encode == nullptr)
        throw Error(ExitCode::internal, "the CUDA driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(encode);
}

// Boxes of kBoxColumns of `rows` rows of one head; what is beyond dim or the last row is 0. In shared memory each row's
// 16-byte pieces are swizzled as wgmma reads them.
inline CUtensorMap tensor_map(NumberType type, const Operand& from, int64_t dim, int64_t rows, int64_t heads,
                              int64_t batches, int box_rows) {
    static const PFN_cuTensorMapEncodeTiled_v12000 encode = tensor_map_encoder();
    // A distance that nobody goes still has to be one.
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

// Of an operand with the queries' rows and heads, and of one with the keys'.
inline CUtensorMap query_map(const Args& args, const Operand& from, int box_rows) {
    return tensor_map(args.type, from, args.dim, args.queries, args.heads, args.batches, box_rows);
}
inline CUtensorMap key_map(const Args& args, const Operand& from, int box_rows) {
    return tensor_map(args.type, from, args.dim, args.keys, args.kv_heads, args.batches, box_rows);
}

} // namespace hw4::gpu::half_forward
