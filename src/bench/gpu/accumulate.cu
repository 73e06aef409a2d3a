// The sums of `bench accumulate` with the GPU's own additions: one thread for each way.
#include "src/bench/accumulate.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "src/gpu/device/memory.h"

namespace hw4::bench {
namespace {

__device__ float widened(float x) { return x; }
__device__ float widened(__half x) { return __half2float(x); }
__device__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }

// The compiler neither contracts nor widens these additions.
__device__ float added(float a, float b) { return __fadd_rn(a, b); }
__device__ __half added(__half a, __half b) { return __hadd_rn(a, b); }
__device__ __nv_bfloat16 added(__nv_bfloat16 a, __nv_bfloat16 b) { return __hadd_rn(a, b); }

template <class T>
__device__ float sum_of(T term, T zero, int64_t count, int chain) {
    T whole = zero;
    for (int64_t first = 0; first < count; first += chain) {
        T part = zero;
        for (int64_t i = first; i < first + chain && i < count; ++i) part = added(part, term);
        whole = added(whole, part);
    }
    return widened(whole);
}

__device__ float in_type(Element element, float x) {
    return element == Element::fp16   ? __half2float(__float2half_rn(x))
           : element == Element::bf16 ? __bfloat162float(__float2bfloat16_rn(x))
                                      : x;
}

__global__ void accumulate(const Accumulation* ways, Addends addends, float* sums) {
    const Accumulation way = ways[threadIdx.x];
    const int chain = way.chain > 0 ? way.chain : static_cast<int>(addends.count);
    const float term = in_type(way.term, addends.term);
    float sum = 0;
    if (way.sum == Element::float32) sum = sum_of(term, 0.0f, addends.count, chain);
    if (way.sum == Element::fp16) sum = sum_of(__float2half_rn(term), __float2half_rn(0.0f), addends.count, chain);
    if (way.sum == Element::bf16)
        sum = sum_of(__float2bfloat16_rn(term), __float2bfloat16_rn(0.0f), addends.count, chain);
    sums[threadIdx.x] = sum;
}

} // namespace

std::vector<float> gpu_sums(const Addends& addends) {
    constexpr size_t kWays = sizeof kAccumulations / sizeof kAccumulations[0];
    const gpu::Scratch ways = gpu::make_scratch(sizeof kAccumulations);
    const gpu::Scratch sums = gpu::make_scratch(kWays * sizeof(float));
    HW4_CUDA(cudaMemcpy(ways.get(), kAccumulations, sizeof kAccumulations, cudaMemcpyHostToDevice));
    accumulate<<<1, kWays>>>(static_cast<const Accumulation*>(ways.get()), addends, static_cast<float*>(sums.get()));
    HW4_CUDA_LAUNCHED("accumulate");
    std::vector<float> result(kWays);
    HW4_CUDA(cudaMemcpy(result.data(), sums.get(), kWays * sizeof(float), cudaMemcpyDeviceToHost));
    return result;
}

} // namespace hw4::bench
