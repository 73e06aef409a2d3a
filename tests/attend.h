// A launch on a case, for tests that compare bytes.
#pragma once

#include <vector>

#include "../src/gpu/kernels.h"
#include "../src/gpu/memory.h"
#include "attention_case.h"

namespace hw4::gpu {

// Runs a kernel with every float that is not input poisoned: the padding of both pitches, the output, scratch memory. A
// NaN that the kernel reads, or an element it does not write, shows in the bytes.
template <class Launch>
std::vector<float> attend(const AttentionCase& test, size_t scratch_bytes, Launch launch) {
    const Shape& shape = test.shape;
    const size_t in_rows = test.qkv.size() / static_cast<size_t>(shape.dim);
    const size_t out_rows = test.expected.size() / static_cast<size_t>(shape.dim);
    const Stream stream = make_stream();
    PitchedMatrix qkv(in_rows, static_cast<size_t>(shape.dim));
    PitchedMatrix out(out_rows, static_cast<size_t>(shape.dim));
    HW4_CUDA(cudaMemsetAsync(qkv.data(), 0xff, qkv.stride() * in_rows * sizeof(float), stream.get()));
    HW4_CUDA(cudaMemsetAsync(out.data(), 0xff, out.stride() * out_rows * sizeof(float), stream.get()));
    qkv.copy_in(test.qkv.data(), in_rows, stream.get());
    const Scratch scratch = make_scratch(scratch_bytes);
    if (scratch_bytes > 0) HW4_CUDA(cudaMemsetAsync(scratch.get(), 0xff, scratch_bytes, stream.get()));
    launch(args_of(shape, qkv.data(), qkv.stride(), out.data(), out.stride(), scratch.get()), stream.get());
    std::vector<float> result(test.expected.size());
    out.copy_out(result.data(), out_rows, stream.get());
    HW4_CUDA(cudaStreamSynchronize(stream.get()));
    return result;
}

inline std::vector<float> attend(const Kernel& kernel, const AttentionCase& test) {
    return attend(test, kernel.scratch_bytes(test.shape, current_device()), kernel.launch);
}

} // namespace hw4::gpu
