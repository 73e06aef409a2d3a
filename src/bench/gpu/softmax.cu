// A block for each row, which reads the row from memory whenever it needs it: the simplest form.
#include "src/bench/gpu/softmax.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "src/gpu/device/check.h"

namespace hw4::bench::gpu_side {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kAll = 0xffffffffu;

__device__ float widened(float x) { return x; }
__device__ float widened(__half x) { return __half2float(x); }
__device__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void narrow(float& to, float x) { to = x; }
__device__ void narrow(__half& to, float x) { to = __float2half_rn(x); }
__device__ void narrow(__nv_bfloat16& to, float x) { to = __float2bfloat16_rn(x); }

struct Largest {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

// Combines the values of all threads of the block; every thread gets the result.
template <class Combine>
__device__ float combined(float mine, Combine combine) {
    __shared__ float of_warp[kWarps];
    for (int step = 16; step > 0; step /= 2) mine = combine(mine, __shfl_xor_sync(kAll, mine, step));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads(); // write before read
    float all = of_warp[0];
    for (int warp = 1; warp < kWarps; ++warp) all = combine(all, of_warp[warp]);
    __syncthreads(); // read before the next write
    return all;
}

// The number of keys that the block's row sees.
__device__ int64_t seen_by(int64_t row, const Scores& shape) {
    const int64_t seen = visible_keys(shape.mask, shape.queries, shape.keys, row % shape.queries);
    return seen < shape.keys ? seen : shape.keys;
}

template <class T>
__global__ void softmax(Scores shape, T* scores) {
    for (int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
        T* const of_row = scores + row * shape.keys;
        const int64_t seen = seen_by(row, shape);
        float largest = -INFINITY;
        for (int64_t key = threadIdx.x; key < seen; key += kThreads) largest = fmaxf(largest, widened(of_row[key]));
        largest = combined(largest, Largest());
        float sum = 0;
        for (int64_t key = threadIdx.x; key < seen; key += kThreads) sum += __expf(widened(of_row[key]) - largest);
        sum = combined(sum, Sum());
        for (int64_t key = threadIdx.x; key < shape.keys; key += kThreads)
            narrow(of_row[key], key < seen ? __expf(widened(of_row[key]) - largest) / sum : 0.0f);
    }
}

template <class T>
__global__ void softmax_gradient(Scores shape, const T* weights, T* gradients) {
    for (int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
        const T* const p = weights + row * shape.keys;
        T* const dp = gradients + row * shape.keys;
        float together = 0;
        for (int64_t key = threadIdx.x; key < shape.keys; key += kThreads)
            together += widened(p[key]) * widened(dp[key]);
        together = combined(together, Sum());
        for (int64_t key = threadIdx.x; key < shape.keys; key += kThreads)
            narrow(dp[key], widened(p[key]) * (widened(dp[key]) - together));
    }
}

// Calls take(pointer to the element type).
template <class Take>
void by_element(Element element, const Take& take) {
    switch (element) {
    case Element::float32: return take(static_cast<float*>(nullptr));
    case Element::fp16: return take(static_cast<__half*>(nullptr));
    case Element::bf16: return take(static_cast<__nv_bfloat16*>(nullptr));
    }
}

unsigned blocks_for(const Scores& shape) {
    constexpr int64_t kMostBlocks = int64_t{1} << 30;
    return static_cast<unsigned>(shape.rows < kMostBlocks ? shape.rows : kMostBlocks);
}

} // namespace

void launch_softmax(const Scores& shape, void* scores, cudaStream_t stream) {
    by_element(shape.element, [&](auto* type) {
        softmax<<<blocks_for(shape), kThreads, 0, stream>>>(shape, static_cast<decltype(type)>(scores));
    });
    HW4_CUDA_LAUNCHED("softmax");
}

void launch_softmax_gradient(const Scores& shape, const void* weights, void* gradients, cudaStream_t stream) {
    by_element(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        softmax_gradient<<<blocks_for(shape), kThreads, 0, stream>>>(shape, static_cast<const T*>(weights),
                                                                     static_cast<T*>(gradients));
    });
    HW4_CUDA_LAUNCHED("softmax_gradient");
}

} // namespace hw4::bench::gpu_side
