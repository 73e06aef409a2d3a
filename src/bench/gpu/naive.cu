// What cuBLAS computes on a GPU: the products of the naive form, and products to compare with a training step's.
// cuBLAS is loaded only for these; hw4 does not link it.
#include "src/bench/naive.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <library_types.h>

#include <cmath>
#include <string>

#include "src/base/error.h"
#include "src/bench/operations.h"
#include "src/bench/workbench.h"
#include "src/gpu/device/loaded_library.h"
#include "src/step/gpu/rows.h"
#include "src/step/gpu/workspace.h"

namespace hw4::bench {
namespace gpu_side {
namespace {

// ---- Kernels on scores: a block for each row, which reads the row from memory whenever it needs it, the simplest form

// Scores of the element type, [rows][keys]; the rows of all units follow each other.
struct Scores {
    Element element;
    int64_t rows;    // in all units
    int64_t queries; // per unit
    int64_t keys;
    Mask mask;
};

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

// P = softmax(S), in place; 0 for a key that the row does not see.
void launch_softmax(const Scores& shape, void* scores, cudaStream_t stream) {
    by_element(shape.element, [&](auto* type) {
        softmax<<<blocks_for(shape), kThreads, 0, stream>>>(shape, static_cast<decltype(type)>(scores));
    });
    HW4_CUDA_LAUNCHED("softmax");
}

// dS = P * (dP - rowsum(P * dP)), in place of dP.
void launch_softmax_gradient(const Scores& shape, const void* weights, void* gradients, cudaStream_t stream) {
    by_element(shape.element, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        softmax_gradient<<<blocks_for(shape), kThreads, 0, stream>>>(shape, static_cast<const T*>(weights),
                                                                     static_cast<T*>(gradients));
    });
    HW4_CUDA_LAUNCHED("softmax_gradient");
}

// ---- Products

// C = factor * op(A) op(B) for each of `count` row-major matrices, a tensor's heads: C is rows x columns, op(A) rows x
// inner. Products of 16-bit numbers are added up in float32.
struct Product {
    int64_t rows, columns, inner;
    Tensor a;
    bool a_transposed; // A is inner x rows
    Tensor b;
    bool b_transposed; // B is columns x inner
    Tensor c;
    float factor;
    int64_t count = 0;
};

class Cublas {
public:
    // Throws Unsupported where cuBLAS is missing.
    Cublas() {
        int (*create)(void** handle) = nullptr;
        library_.need(create, "cublasCreate_v2");
        library_.need(destroy_, "cublasDestroy_v2");
        library_.need(set_stream_, "cublasSetStream_v2");
        library_.need(sgemm_, "cublasSgemm_v2");
        library_.need(gemm_, "cublasGemmStridedBatchedEx");
        if (!library_.lacking().empty()) throw Unsupported(library_.lacking());
        if (const int status = create(&handle_); status != 0)
            throw Unsupported("cublasCreate returned " + std::to_string(status));
    }
    ~Cublas() { destroy_(handle_); }
    Cublas(const Cublas&) = delete;
    Cublas& operator=(const Cublas&) = delete;

    void use(cudaStream_t stream) const { check(set_stream_(handle_, stream), "cublasSetStream"); }

    // cuBLAS takes column-major matrices: multiply the transposed matrices for the transposed product.
    void multiply(const Product& product) const {
        const cudaDataType type = product.c.element == Element::float32 ? CUDA_R_32F
                                  : product.c.element == Element::fp16  ? CUDA_R_16F
                                                                        : CUDA_R_16BF;
        const float none = 0;
        check(gemm_(handle_, product.b_transposed ? kTransposed : kPlain, product.a_transposed ? kTransposed : kPlain,
                    whole(product.columns), whole(product.rows), whole(product.inner), &product.factor, product.b.data,
                    type, whole(product.b.row), product.b.head, product.a.data, type, whole(product.a.row),
                    product.a.head, &none, product.c.data, type, whole(product.c.row), product.c.head,
                    whole(product.count), kInFloat32, kAnyAlgorithm),
              "cublasGemmStridedBatchedEx");
    }
    // cuBLAS's default is float32 without tensor cores.
    void multiply(const step::LinearProduct& of) const {
        const float one = 1;
        const float none = 0;
        check(sgemm_(handle_, of.b_along() ? kTransposed : kPlain, of.a_along() ? kPlain : kTransposed,
                     whole(of.columns()), whole(of.rows()), whole(of.terms()), &one, of.b,
                     whole(of.b_along() ? of.terms() : of.columns()), of.a,
                     whole(of.a_along() ? of.terms() : of.rows()), &none, of.out, whole(of.columns())),
              "cublasSgemm");
    }

private:
    // Constants from cublas_api.h, which a machine that builds hw4 need not have.
    static constexpr int kPlain = 0;
    static constexpr int kTransposed = 1;
    static constexpr int kInFloat32 = 68; // CUBLAS_COMPUTE_32F
    static constexpr int kAnyAlgorithm = -1;
    using Gemm = int (*)(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
                         cudaDataType a_type, int lda, long long a_stride, const void* b, cudaDataType b_type, int ldb,
                         long long b_stride, const void* beta, void* c, cudaDataType c_type, int ldc,
                         long long c_stride, int batches, int compute, int algorithm);
    using FloatGemm = int (*)(void* handle, int op_a, int op_b, int m, int n, int k, const float* alpha, const float* a,
                              int lda, const float* b, int ldb, const float* beta, float* c, int ldc);

    static int whole(int64_t number) { return static_cast<int>(number); }

    static void check(int status, const char* call) {
        if (status != 0)
            throw Error(ExitCode::internal, std::string(call) + " of cuBLAS returned " + std::to_string(status));
    }

    gpu::LoadedLibrary library_{gpu::toolkit_files("cublas")};
    void* handle_ = nullptr;
    int (*destroy_)(void* handle) = nullptr;
    int (*set_stream_)(void* handle, cudaStream_t stream) = nullptr;
    Gemm gemm_ = nullptr;
    FloatGemm sgemm_ = nullptr;
};

class GpuNaive : public NaiveAttention {
public:
    void compute(const step::Attention& of, void* weights, void* gradients, void* stream) override {
        const Problem& problem = of.problem;
        const auto in_order = static_cast<cudaStream_t>(stream);
        cublas_.use(in_order);
        const Element element = of.in[0].element;
        const Scores shape = {element, problem.units() * problem.queries, problem.queries, problem.keys, problem.mask};
        const int64_t scores = problem.queries * problem.keys; // of a head
        const Tensor p = {weights, element, problem.heads * scores, scores, problem.keys};
        const Tensor ds = {gradients, element, problem.heads * scores, scores, problem.keys};
        const float scale = 1.0f / std::sqrt(static_cast<float>(problem.dim));
        if (!of.is_backward()) {
            pairs(problem, of.in[0], of.in[1], p, scale);
            launch_softmax(shape, weights, in_order);
            rows(problem, p, false, of.in[2], of.out[0], 1);
            return;
        }
        rows(problem, p, true, of.in[3], of.out[2], 1); // dV = P^T dO
        pairs(problem, of.in[3], of.in[2], ds, 1);      // dP = dO V^T
        launch_softmax_gradient(shape, weights, gradients, in_order);
        rows(problem, ds, false, of.in[1], of.out[0], scale); // dQ = dS K
        rows(problem, ds, true, of.in[0], of.out[1], scale);  // dK = dS^T Q
    }

private:
    // X Y^T of two tensors: a score for each pair of rows.
    void pairs(const Problem& problem, const Tensor& x, const Tensor& y, const Tensor& to, float factor) const {
        multiply(problem, {problem.queries, problem.keys, problem.dim, x, false, y, true, to, factor});
    }
    // S Y, or S^T Y, for scores and a tensor.
    void rows(const Problem& problem, const Tensor& scores, bool transposed, const Tensor& y, const Tensor& to,
              float factor) const {
        multiply(problem, {problem.queries, problem.dim, problem.keys, scores, transposed, y, false, to, factor});
    }
    // One call for all heads of all batches where they follow each other, else a call for each batch.
    void multiply(const Problem& problem, Product product) const {
        Tensor* const tensors[] = {&product.a, &product.b, &product.c};
        bool together = true;
        for (const Tensor* tensor : tensors) together = together && tensor->batch == problem.heads * tensor->head;
        product.count = together ? problem.units() : problem.heads;
        for (int64_t batch = 0; batch < (together ? 1 : problem.batches); ++batch) {
            cublas_.multiply(product);
            for (Tensor* tensor : tensors) tensor->data = tensor->at(1, 0);
        }
    }

    Cublas cublas_;
};

class GpuYardstick : public Yardstick {
public:
    explicit GpuYardstick(cudaStream_t stream) : stream_(stream), rows_(stream), sums_(stream), targets_(stream) {
        cublas_.use(stream);
    }

    void multiply(const step::LinearProduct& product) override { cublas_.multiply(product); }
    void copy(float* to, const float* from, size_t count) override {
        HW4_CUDA(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDeviceToDevice, stream_));
    }
    void squares(const float* x, size_t count) override {
        const size_t segments = count / step::kSegment;
        rows_.squares(x, static_cast<int64_t>(segments), sums_.of<float>(segments));
    }
    void cross_entropy(float* logits, int64_t rows, int64_t vocabulary, float share) override {
        const auto count = static_cast<size_t>(rows);
        const bool is_new = targets_.bytes() < count * sizeof(int32_t);
        auto* const targets = targets_.of<int32_t>(count); // the first token for every row
        if (is_new) HW4_CUDA(cudaMemsetAsync(targets, 0, count * sizeof(int32_t), stream_));
        rows_.cross_entropy(logits, targets, sums_.of<double>(count), rows, vocabulary, share);
    }

private:
    cudaStream_t stream_;
    Cublas cublas_;
    const step::RowKernels rows_;
    step::Workspace sums_, targets_;
};

} // namespace
} // namespace gpu_side

std::unique_ptr<NaiveAttention> gpu_naive() { return std::make_unique<gpu_side::GpuNaive>(); }
std::unique_ptr<Yardstick> gpu_yardstick(void* stream) {
    return std::make_unique<gpu_side::GpuYardstick>(static_cast<cudaStream_t>(stream));
}

} // namespace hw4::bench
