// Kernels of half precision, on operands of their type.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "src/bench/gpu/staged_copies.h"
#include "src/bench/workbench.h"
#include "src/gpu/kernels.h"

namespace hw4::bench::gpu_side {

// Of a contract whose element is of 16 bits. Throws Unsupported, OutOfMemory, Error.
std::unique_ptr<Subject> narrow_subject(const Cell& cell, Pass pass, const CaseData& data, const Contract& contract,
                                        const gpu::Device& device, cudaStream_t stream, StagedCopies& copies,
                                        MemoryCount& memory);

} // namespace hw4::bench::gpu_side
