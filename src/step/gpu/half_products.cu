#include "src/step/gpu/half_products.h"

#include "src/base/error.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "src/gpu/device/loaded_library.h"
#include "src/gpu/launch.h"

namespace hw4::step {
namespace {

constexpr size_t kAlignment = 256; // what cuBLASLt assumes of pointers by default
constexpr size_t kMostWorkspace = size_t{32} << 20;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void check(cublasStatus_t status, const char* call) {
    if (status != CUBLAS_STATUS_SUCCESS)
        throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? ExitCode::out_of_memory : ExitCode::internal,
                    std::string(call) + " returned " + std::to_string(status));
}

// Rounds contiguous numbers, which convert_rows() gets as rows.
class Rounding {
public:
    void add(const float* from, void* to, int64_t count) {
        constexpr int64_t kColumns = 1024;
        add_rows(from, to, count / kColumns, kColumns);
        const int64_t done = count / kColumns * kColumns;
        add_rows(from + done, static_cast<uint16_t*>(to) + done, 1, count - done);
    }
    void run(cudaStream_t stream) const { gpu::convert_rows(list_, count_, stream); }

private:
    void add_rows(const float* from, void* to, int64_t rows, int64_t columns) {
        if (rows == 0 || columns == 0) return;
        list_[count_++] = {{const_cast<float*>(from), Element::float32, 0, 0, columns}, // NOLINT: inputs are read
                           {to, Element::bf16, 0, 0, columns},
                           1,
                           1,
                           rows,
                           columns,
                           columns};
    }

    gpu::RowsOfHeads list_[4];
    int count_ = 0;
};

// A function of the loaded library, with its type in the header.
#define HW4_OF_LIBRARY(name) const decltype(&::name) name = found<decltype(&::name)>(#name)

class ByCublasLt : public HalfProducts {
public:
    ByCublasLt() { check(cublasLtCreate(&handle_), "cublasLtCreate"); }
    ~ByCublasLt() override { cublasLtDestroy(handle_); }
    ByCublasLt(const ByCublasLt&) = delete;
    ByCublasLt& operator=(const ByCublasLt&) = delete;

    void multiply(ProductKind kind, const ProductArgs& args, Workspace& workspace, cudaStream_t stream) override {
        Plan& plan = plan_of(kind, args);
        const int64_t a_count = int64_t{args.rows} * args.terms;
        const int64_t b_count = int64_t{args.columns} * args.terms;
        const size_t a_bytes = aligned(static_cast<size_t>(a_count) * 2);
        const size_t b_bytes = aligned(static_cast<size_t>(b_count) * 2);
        auto* const a = workspace.of<unsigned char>(a_bytes + b_bytes + plan.workspace_bytes);
        unsigned char* const b = a + a_bytes;
        Rounding rounding;
        rounding.add(args.a, a, a_count);
        rounding.add(args.b, b, b_count);
        rounding.run(stream);
        const float one = 1;
        const float of_residual = args.residual == nullptr ? 0 : 1;
        check(cublasLtMatmul(handle_, &plan.product, &one, b, &plan.b, a, &plan.a, &of_residual,
                             args.residual == nullptr ? args.out : args.residual, &plan.out, args.out, &plan.out,
                             &plan.algorithm, b + b_bytes, plan.workspace_bytes, stream),
              "cublasLtMatmul");
    }

private:
    struct Plan {
        cublasLtMatmulDescOpaque_t product;
        cublasLtMatrixLayoutOpaque_t a, b, out;
        cublasLtMatmulAlgo_t algorithm;
        size_t workspace_bytes;
    };

    // Plans are kept: every layer repeats them.
    Plan& plan_of(ProductKind kind, const ProductArgs& args) {
        const auto places = reinterpret_cast<uintptr_t>(args.out) | reinterpret_cast<uintptr_t>(args.residual);
        const auto alignment = static_cast<uint32_t>(std::min<uintptr_t>(places & (~places + 1), kAlignment));
        const std::tuple key(kind, args.rows, args.columns, args.terms, alignment);
        const auto known = plans_.find(key);
        return known != plans_.end() ? known->second
                                     : plans_.emplace(key, make_plan(kind, args, alignment)).first->second;
    }

    // cuBLASLt stores matrices by columns: `out`, stored by rows, is its transpose there, and so are the factors, whose
    // order changes: b comes first.
    Plan make_plan(ProductKind kind, const ProductArgs& args, uint32_t alignment) {
        Plan plan{};
        check(cublasLtMatmulDescInit_internal(&plan.product, sizeof plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              "cublasLtMatmulDescInit");
        const auto factor = [&](cublasLtMatrixLayoutOpaque_t& layout, cublasLtMatmulDescAttributes_t of_operation,
                                cublasOperation_t operation, bool along_terms, int count) {
            check(cublasLtMatmulDescSetAttribute(&plan.product, of_operation, &operation, sizeof operation),
                  "cublasLtMatmulDescSetAttribute");
            init(layout, CUDA_R_16BF, along_terms ? args.terms : count, along_terms ? count : args.terms);
        };
        const bool b_along = kind == ProductKind::linear;
        const bool a_along = kind != ProductKind::linear_weights;
        factor(plan.b, CUBLASLT_MATMUL_DESC_TRANSA, b_along ? CUBLAS_OP_T : CUBLAS_OP_N, b_along, args.columns);
        factor(plan.a, CUBLASLT_MATMUL_DESC_TRANSB, a_along ? CUBLAS_OP_N : CUBLAS_OP_T, a_along, args.rows);
        init(plan.out, CUDA_R_32F, args.columns, args.rows);

        cublasLtMatmulPreferenceOpaque_t preference;
        check(cublasLtMatmulPreferenceInit_internal(&preference, sizeof preference), "cublasLtMatmulPreferenceInit");
        const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
            check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
                  "cublasLtMatmulPreferenceSetAttribute");
        };
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kMostWorkspace});
        prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
        cublasLtMatmulHeuristicResult_t best{};
        int count = 0;
        const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
            handle_, &plan.product, &plan.b, &plan.a, &plan.out, &plan.out, &preference, 1, &best, &count);
        if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic");
        if (status == CUBLAS_STATUS_NOT_SUPPORTED || count == 0)
            throw Error(ExitCode::bad_data, "cuBLASLt has no product under bf16 of " + std::to_string(args.rows) +
                                                " x " + std::to_string(args.columns) + " sums of " +
                                                std::to_string(args.terms) + " terms on this GPU");
        check(best.state, "cublasLtMatmulAlgoGetHeuristic");
        plan.algorithm = best.algo;
        plan.workspace_bytes = best.workspaceSize;
        return plan;
    }
    void init(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType type, int rows, int columns) {
        check(cublasLtMatrixLayoutInit_internal(&layout, sizeof layout, type, static_cast<uint64_t>(rows),
                                                static_cast<uint64_t>(columns), rows),
              "cublasLtMatrixLayoutInit");
    }

    template <class Function>
    Function found(const char* name) {
        Function function = nullptr;
        library_.need(function, name);
        if (!library_.lacking().empty())
            throw Error(ExitCode::no_gpu, "no usable GPU: bf16 needs cuBLASLt: " + library_.lacking());
        return function;
    }

    gpu::LoadedLibrary library_{gpu::toolkit_files("cublasLt")};
    HW4_OF_LIBRARY(cublasLtCreate);
    HW4_OF_LIBRARY(cublasLtDestroy);
    HW4_OF_LIBRARY(cublasLtMatmul);
    HW4_OF_LIBRARY(cublasLtMatmulAlgoGetHeuristic);
    HW4_OF_LIBRARY(cublasLtMatmulDescInit_internal); // the header's inline functions call it
    HW4_OF_LIBRARY(cublasLtMatmulDescSetAttribute);
    HW4_OF_LIBRARY(cublasLtMatmulPreferenceInit_internal);
    HW4_OF_LIBRARY(cublasLtMatmulPreferenceSetAttribute);
    HW4_OF_LIBRARY(cublasLtMatrixLayoutInit_internal);
    cublasLtHandle_t handle_ = nullptr;
    std::map<std::tuple<ProductKind, int, int, int, uint32_t>, Plan> plans_;
};

} // namespace

std::unique_ptr<HalfProducts> make_half_products() { return std::make_unique<ByCublasLt>(); }

} // namespace hw4::step

#else

namespace hw4::step {

std::unique_ptr<HalfProducts> make_half_products() {
    throw Error(ExitCode::no_gpu, "no usable GPU: hw4 was built without cublasLt.h, which bf16 needs");
}

} // namespace hw4::step

#endif
