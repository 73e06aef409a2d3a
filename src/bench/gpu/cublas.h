// cuBLAS, loaded when a naive cell asks for it: hw4 neither needs it nor links it.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <library_types.h>

#include <cstdint>
#include <string>

#include "src/base/error.h"
#include "src/bench/workbench.h"

namespace hw4::bench::gpu_side {

// C = factor * op(A) op(B) for each of `count` matrices, row by row in memory, one after the other: C is rows x
// columns, op(A) rows x inner. Products of 16 bits are added up in float32.
struct Product {
    int64_t rows, columns, inner;
    const void* a;
    bool a_transposed; // A is inner x rows
    const void* b;
    bool b_transposed; // B is columns x inner
    void* c;
    float factor;
    int64_t count;
};

class Cublas {
public:
    // Throws Unsupported where there is none.
    Cublas() {
        // As the loader finds it, or where the toolkit is usually installed.
        for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so",
                                 "/usr/local/cuda/lib64/libcublas.so"})
            if (library_ == nullptr) library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (library_ == nullptr) throw Unsupported("cuBLAS is not here: libcublas.so cannot be loaded");
        int (*create)(void** handle) = nullptr;
        std::string lacking;
        if (!find(create, "cublasCreate_v2") || !find(destroy_, "cublasDestroy_v2") ||
            !find(set_stream_, "cublasSetStream_v2") || !find(gemm_, "cublasGemmStridedBatchedEx"))
            lacking = "the cuBLAS here lacks cublasGemmStridedBatchedEx";
        else if (const int status = create(&handle_); status != 0)
            lacking = "cublasCreate returned " + std::to_string(status);
        if (lacking.empty()) return;
        ::dlclose(library_);
        throw Unsupported(lacking);
    }
    ~Cublas() {
        destroy_(handle_);
        ::dlclose(library_);
    }
    Cublas(const Cublas&) = delete;
    Cublas& operator=(const Cublas&) = delete;

    // cuBLAS takes matrices column by column: the transposed product of the transposed matrices.
    void multiply(const Product& product, Element element, cudaStream_t stream) const {
        check(set_stream_(handle_, stream), "cublasSetStream");
        const cudaDataType type = element == Element::float32 ? CUDA_R_32F
                                  : element == Element::fp16  ? CUDA_R_16F
                                                              : CUDA_R_16BF;
        const float none = 0;
        const auto whole = [](int64_t number) { return static_cast<int>(number); };
        check(gemm_(handle_, product.b_transposed ? kTransposed : kPlain, product.a_transposed ? kTransposed : kPlain,
                    whole(product.columns), whole(product.rows), whole(product.inner), &product.factor, product.b, type,
                    whole(product.b_transposed ? product.inner : product.columns), product.inner * product.columns,
                    product.a, type, whole(product.a_transposed ? product.rows : product.inner),
                    product.rows * product.inner, &none, product.c, type, whole(product.columns),
                    product.rows * product.columns, whole(product.count), kInFloat32, kAnyAlgorithm),
              "cublasGemmStridedBatchedEx");
    }

private:
    // What cublas_api.h says, which a machine that builds hw4 need not have.
    static constexpr int kPlain = 0;
    static constexpr int kTransposed = 1;
    static constexpr int kInFloat32 = 68; // CUBLAS_COMPUTE_32F
    static constexpr int kAnyAlgorithm = -1;
    using Gemm = int (*)(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
                         cudaDataType a_type, int lda, long long a_stride, const void* b, cudaDataType b_type, int ldb,
                         long long b_stride, const void* beta, void* c, cudaDataType c_type, int ldc,
                         long long c_stride, int batches, int compute, int algorithm);

    template <class Function>
    bool find(Function& function, const char* name) const {
        function = reinterpret_cast<Function>(::dlsym(library_, name));
        return function != nullptr;
    }
    static void check(int status, const char* call) {
        if (status != 0)
            throw Error(ExitCode::internal, std::string(call) + " of cuBLAS returned " + std::to_string(status));
    }

    void* library_ = nullptr;
    void* handle_ = nullptr;
    int (*destroy_)(void* handle) = nullptr;
    int (*set_stream_)(void* handle, cudaStream_t stream) = nullptr;
    Gemm gemm_ = nullptr;
};

} // namespace hw4::bench::gpu_side
