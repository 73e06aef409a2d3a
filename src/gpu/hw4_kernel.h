// A kernel in a file of its own, for hw4 --kernel-file, hw4 bench --kernel-file and profile/profile --kernel-file: a
// shared library with one symbol, hw4_kernel, a struct Hw4Kernel. C, C++ or CUDA; it needs nothing else of hw4.
// profile/my_kernel.cu is an example; `make my-kernel FILE=mine.cu` builds one.
//
// hw4 does not check the numbers that the kernel writes; judge/judge --kernel-file does.
#ifndef HW4_KERNEL_H
#define HW4_KERNEL_H

// NOLINTBEGIN(modernize-*,cppcoreguidelines-macro-usage): it is C
#include <stddef.h>
#include <stdint.h>

#define HW4_KERNEL_ABI 1 // changes with anything below

// What a kernel supports besides the plain case: one head, no mask. Without the flag hw4 refuses other cases.
#define HW4_KNOWS_HEADS 1u  // several heads; heads / kv_heads adjacent heads of Q share one of K and V
#define HW4_KNOWS_CAUSAL 2u // more_seen = 1

// A matrix in device memory. Distances are in floats; the columns of a row are contiguous, and memory between rows must
// not be touched. If dim is a multiple of 4, every row starts at a multiple of 16 bytes.
typedef struct Hw4Input {
    const float* at;
    int64_t row, head, batch; // distance from one to the next
} Hw4Input;

typedef struct Hw4Output {
    float* at;
    int64_t row, head, batch;
} Hw4Output;

// The work of a launch: some batches of a case, with all their queries or, if batches are large, some of them.
typedef struct Hw4Launch {
    int64_t batches;
    int64_t queries; // rows of Q and O for each head; not always as many as keys
    int64_t keys;    // rows of K and V
    int64_t dim;     // columns of all four
    int64_t heads, kv_heads;
    // Query i sees the first first_seen + i * more_seen keys. If that is below 1, it sees none, and its row of O is 0.
    // Without a mask the two numbers are the number of keys and 0.
    int64_t first_seen, more_seen;
    Hw4Input q, k, v;
    Hw4Output out;
    void* scratch;        // device memory of scratch_bytes() bytes, used by no other launch at the same time
    void* stream;         // a cudaStream_t
    int32_t capability;   // of the GPU: 90 is 9.0
    int32_t shared_bytes; // the most that the GPU allows a block
} Hw4Launch;

typedef struct Hw4Kernel {
    uint32_t abi;             // HW4_KERNEL_ABI
    uint32_t bytes;           // sizeof(Hw4Kernel)
    const char* name;         // letters, digits and '_'; not a name in --list-kernels
    const char* idea;         // one line
    int64_t most_dim;         // the largest d that it takes, up to 256
    int32_t least_capability; // of a GPU that runs it: 75, 80, 90
    uint32_t knows;           // HW4_KNOWS_...
    // The scratch memory of a launch of these sizes; the pointers are null. Null: none.
    size_t (*scratch_bytes)(const Hw4Launch* sizes);
    // Puts the kernels into the stream and returns cudaGetLastError(). It must not wait or allocate: it is also called
    // while the stream is captured.
    int (*launch)(const Hw4Launch* launch);
} Hw4Kernel;

#ifdef __cplusplus
extern "C" {
#endif
extern const Hw4Kernel hw4_kernel;
#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*,cppcoreguidelines-macro-usage)

#endif
