// A kernel in a file of its own, for hw4 --kernel-file, hw4 bench --kernel-file and profile/profile
// --kernel-file: a shared library with one symbol, hw4_kernel, a struct Hw4Kernel. C, C++ or CUDA; nothing else of hw4
// is needed. profile/my_kernel.cu is an example; `make my-kernel FILE=mine.cu` builds one.
//
// hw4 looks at no number that the kernel writes; judge/judge --kernel-file does.
#ifndef HW4_KERNEL_H
#define HW4_KERNEL_H

// NOLINTBEGIN(modernize-*,cppcoreguidelines-macro-usage): it is C
#include <stddef.h>
#include <stdint.h>

#define HW4_KERNEL_ABI 1 // changes with anything below

// What a kernel may know beside the plain case: one head, no mask. Without the flag hw4 refuses other cases.
#define HW4_KNOWS_HEADS 1u  // several heads; K and V may have fewer, each for heads / kv_heads neighbours
#define HW4_KNOWS_CAUSAL 2u // more_seen = 1

// An operand in device memory. Distances are in floats; the columns of a row are neighbours, and what stands between
// rows is not to be touched. Where dim is a multiple of 4, every row starts at a boundary of 16 bytes.
typedef struct Hw4Input {
    const float* at;
    int64_t row, head, batch; // from one to the next
} Hw4Input;

typedef struct Hw4Output {
    float* at;
    int64_t row, head, batch;
} Hw4Output;

// What is to be computed: some batches of a case, of each all queries or, where batches are large, some of them.
typedef struct Hw4Launch {
    int64_t batches;
    int64_t queries; // rows of Q and O for each head; not always as many as keys
    int64_t keys;    // rows of K and V
    int64_t dim;     // columns of all four
    int64_t heads, kv_heads;
    // Query i sees the first first_seen + i * more_seen keys, none where that is below 1: its row of O is 0 then. All
    // keys, and 0, where there is no mask.
    int64_t first_seen, more_seen;
    Hw4Input q, k, v;
    Hw4Output out;
    void* scratch;        // device memory of scratch_bytes() bytes; of no other launch at the same time
    void* stream;         // a cudaStream_t
    int32_t capability;   // of the card: 90
    int32_t shared_bytes; // that the card grants a block
} Hw4Launch;

typedef struct Hw4Kernel {
    uint32_t abi;             // HW4_KERNEL_ABI
    uint32_t bytes;           // sizeof(Hw4Kernel)
    const char* name;         // letters, digits and '_'; none that --list-kernels has
    const char* idea;         // a line
    int64_t most_dim;         // the largest d that it takes, up to 256
    int32_t least_capability; // of a card that runs it: 75, 80, 90
    uint32_t knows;           // HW4_KNOWS_...
    // What a launch of these sizes needs; the pointers are null. Null: nothing.
    size_t (*scratch_bytes)(const Hw4Launch* sizes);
    // Puts the kernels into the stream and returns cudaGetLastError(). It must not wait, nor allocate: it is called
    // also while the stream only records.
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
