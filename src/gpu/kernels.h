// THE table of GPU kernels. --list-kernels, the tests, the judge and the choice all read this one; adding a
// kernel is its file and one row in kernels.cu.
#pragma once

#include <cuda_runtime.h>

#include <limits>
#include <string>
#include <vector>

#include "src/contracts/contract.h"
#include "src/gpu/query_step.h"
#include "src/problem/shape.h"

namespace hw4::gpu {

// Some batches of a case in device memory. All three matrices of a batch follow one another, row by row, as in
// the file: Q of batch b starts at row 3*b*tokens, K at (3*b + 1)*tokens, V at (3*b + 2)*tokens.
// Both pointers are aligned to 16 bytes, and where dim is a multiple of 4 so are both strides: every row then starts at
// a boundary of 16 bytes, and kernels may take rows as float4. Any other dim may have any stride from dim on: packed
// rows (--copies linear) are dim apart, and kernels take those float by float.
struct KernelArgs {
    const float* qkv; // [batches][3][tokens][dim], rows qkv_stride floats apart
    size_t qkv_stride;
    float* out; // [batches][tokens][dim], rows out_stride floats apart
    size_t out_stride;
    int64_t batches;
    int64_t tokens;
    int dim;
    Scale scale;
    // The query rows of each batch to compute, from a multiple of kQueryStep up to another or the last.
    int64_t first_query = 0;
    int64_t end_query = std::numeric_limits<int64_t>::max();
    void* scratch = nullptr; // of as many bytes as the kernel asks for; for one launch at a time
};

// Whole batches of a shape, whose matrices are on the GPU.
inline KernelArgs args_of(const Shape& shape, const float* qkv, size_t qkv_stride, float* out, size_t out_stride,
                          void* scratch) {
    KernelArgs args{};
    args.qkv = qkv;
    args.qkv_stride = qkv_stride;
    args.out = out;
    args.out_stride = out_stride;
    args.batches = shape.batches;
    args.tokens = shape.tokens;
    args.dim = static_cast<int>(shape.dim);
    args.scale = scale_for(shape.dim);
    args.scratch = scratch;
    return args;
}

__host__ __device__ inline int64_t queries_of(const KernelArgs& args) {
    return (args.end_query < args.tokens ? args.end_query : args.tokens) - args.first_query;
}

// What a kernel may have to know of a card.
struct Device {
    int arch;            // compute capability, 10 * major + minor
    size_t shared_bytes; // that one block may have
    int multiprocessors;
    int code_arch = std::numeric_limits<int>::max(); // what the code that runs on it was compiled for
};

constexpr int kMostColumns = 256; // no kernel takes more, and but for those that say so each takes every d up to here

struct Kernel {
    const char* name;
    const char* idea;
    int min_arch;
    size_t (*shared_bytes)(int dim); // of a block
    void (*launch)(const KernelArgs& args, cudaStream_t stream);
    size_t (*scratch_bytes)(const Shape& shape, const Device& device); // for launches of such a shape or a part of it
    Arithmetic arithmetic = Arithmetic::f32;
    int most_columns = kMostColumns;
    int max_arch = std::numeric_limits<int>::max(); // instructions that later cards do not have
};

// What this build has code for.
struct BuiltFor {
    std::vector<int> archs; // machine code, ascending
    int ptx;                // from which the driver makes code for cards that have none of their own
};
BuiltFor built_for();

// Which of it a card runs: machine code runs on cards of its own major version and at least its minor one, PTX on all
// that are not older. 0: none.
int code_arch(int card_arch, const BuiltFor& built);

// The card in use.
Device current_device();
std::string device_name();

// Why the kernel cannot take the shape on the card; empty when it can.
std::string why_not(const Kernel& kernel, const Shape& shape, const Device& device);

const std::vector<Kernel>& kernels();
std::vector<Kernel> kernels_of(Arithmetic arithmetic);

// The kernel of that name; null when there is none.
const Kernel* find_kernel(const std::string& name);

// The contract's fastest kernel for the shape on the card; null when none can take it.
const Kernel* choose_kernel(const Shape& shape, const Device& device, Arithmetic arithmetic = Arithmetic::f32);

} // namespace hw4::gpu
