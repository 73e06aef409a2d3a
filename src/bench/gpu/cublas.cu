#include "src/bench/gpu/cublas.h"

#include <dlfcn.h>
#include <library_types.h>

#include <string>

#include "src/base/error.h"
#include "src/bench/workbench.h"

namespace hw4::bench::gpu_side {
namespace {

// What cublas_api.h says, which a machine that builds hw4 need not have.
constexpr int kPlain = 0;
constexpr int kTransposed = 1;
constexpr int kInFloat32 = 68; // CUBLAS_COMPUTE_32F
constexpr int kAnyAlgorithm = -1;
using Create = int (*)(void** handle);
using Destroy = int (*)(void* handle);
using SetStream = int (*)(void* handle, cudaStream_t stream);
using Gemm = int (*)(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
                     cudaDataType a_type, int lda, long long a_stride, const void* b, cudaDataType b_type, int ldb,
                     long long b_stride, const void* beta, void* c, cudaDataType c_type, int ldc, long long c_stride,
                     int batches, int compute, int algorithm);

// As the loader finds it, or where the toolkit is usually installed.
constexpr const char* kNames[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so",
                                  "/usr/local/cuda/lib64/libcublas.so"};

cudaDataType type_of(Element element) {
    return element == Element::float32 ? CUDA_R_32F : element == Element::fp16 ? CUDA_R_16F : CUDA_R_16BF;
}

void check(int status, const char* call) {
    if (status != 0)
        throw Error(ExitCode::internal, std::string(call) + " of cuBLAS returned " + std::to_string(status));
}

} // namespace

struct Cublas::Functions {
    Create create;
    Destroy destroy;
    SetStream set_stream;
    Gemm gemm;
};

Cublas::Cublas() {
    for (const char* name : kNames)
        if (library_ == nullptr) library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw Unsupported("cuBLAS is not here: libcublas.so cannot be loaded");
    const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library_, name));
        return function != nullptr;
    };
    Functions found{};
    if (!find(found.create, "cublasCreate_v2") || !find(found.destroy, "cublasDestroy_v2") ||
        !find(found.set_stream, "cublasSetStream_v2") || !find(found.gemm, "cublasGemmStridedBatchedEx")) {
        ::dlclose(library_);
        throw Unsupported("the cuBLAS here lacks cublasGemmStridedBatchedEx");
    }
    if (const int status = found.create(&handle_); status != 0) {
        ::dlclose(library_);
        throw Unsupported("cublasCreate returned " + std::to_string(status));
    }
    functions_ = std::make_unique<Functions>(found);
}

Cublas::~Cublas() {
    functions_->destroy(handle_);
    ::dlclose(library_);
}

// cuBLAS takes matrices column by column: the transposed product of the transposed matrices.
void Cublas::multiply(const Product& product, Element element, cudaStream_t stream) const {
    check(functions_->set_stream(handle_, stream), "cublasSetStream");
    const cudaDataType type = type_of(element);
    const float none = 0;
    const auto whole = [](int64_t number) { return static_cast<int>(number); };
    check(functions_->gemm(
              handle_, product.b_transposed ? kTransposed : kPlain, product.a_transposed ? kTransposed : kPlain,
              whole(product.columns), whole(product.rows), whole(product.inner), &product.factor, product.b, type,
              whole(product.b_transposed ? product.inner : product.columns), product.inner * product.columns, product.a,
              type, whole(product.a_transposed ? product.rows : product.inner), product.rows * product.inner, &none,
              product.c, type, whole(product.columns), product.rows * product.columns, whole(product.count), kInFloat32,
              kAnyAlgorithm),
          "cublasGemmStridedBatchedEx");
}

} // namespace hw4::bench::gpu_side
