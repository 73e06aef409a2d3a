// A kernel on a case with every float that is not input poisoned: the padding of both pitches, the output, scratch
// memory. A NaN that the kernel reads, or an element it does not write, shows in the bytes.
#pragma once

#include <vector>

#include "../src/gpu/kernels.h"
#include "../src/gpu/memory.h"

namespace hw4::gpu {

template <class Launch>
std::vector<float> attend_poisoned(const Shape& shape, const std::vector<float>& values, size_t scratch_bytes,
                                   Launch launch) {
    const size_t in_rows = values.size() / static_cast<size_t>(shape.dim);
    const size_t out_rows = in_rows / 3;
    const Stream stream = make_stream();
    PitchedMatrix qkv(in_rows, static_cast<size_t>(shape.dim));
    PitchedMatrix out(out_rows, static_cast<size_t>(shape.dim));
    HW4_CUDA(cudaMemsetAsync(qkv.data(), 0xff, qkv.stride() * in_rows * sizeof(float), stream.get()));
    HW4_CUDA(cudaMemsetAsync(out.data(), 0xff, out.stride() * out_rows * sizeof(float), stream.get()));
    qkv.copy_in(values.data(), in_rows, stream.get());
    const Scratch scratch = make_scratch(scratch_bytes);
    if (scratch_bytes > 0) HW4_CUDA(cudaMemsetAsync(scratch.get(), 0xff, scratch_bytes, stream.get()));
    launch(args_of(shape, qkv.data(), qkv.stride(), out.data(), out.stride(), scratch.get()), stream.get());
    std::vector<float> result(out_rows * static_cast<size_t>(shape.dim));
    out.copy_out(result.data(), out_rows, stream.get());
    HW4_CUDA(cudaStreamSynchronize(stream.get()));
    return result;
}

} // namespace hw4::gpu
