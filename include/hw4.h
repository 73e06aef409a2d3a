/* libhw4: attention whose bytes are defined, O = softmax(scale * Q K^T) V and its gradients.
 *
 * Fill in one hw4_call, ask hw4_plan() what it needs, and pass it to hw4_run(). C99; usable from C++, Rust, Julia,
 * ctypes. src/library/example.c and example.cpp are two examples.
 *
 * A call for a GPU takes device pointers, puts its kernels into the caller's stream and returns: it allocates no device
 * memory, never waits for the GPU, and may be captured in a CUDA graph. The first call for a GPU in a process must be
 * hw4_plan(), outside a capture: it asks the driver what the GPU has. A call for the host takes host pointers and
 * returns when the outputs are written. All functions may be called from any number of threads at once, and throw
 * nothing.
 *
 * The contract defines the bytes of every output. Under f32, fixed and fixed16 they are the same on every GPU and
 * every processor, whatever the batch, strides or threads; under bf16 and fp16 they are the same on every run of the
 * same kernel. The values must be finite and within the contract's range: hw4_check() tells. Other values give outputs
 * without meaning, but no call hangs or writes outside its outputs. */
#ifndef HW4_H
#define HW4_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when a struct or a function below changes in a way that old callers notice. 0 is no release: until the first
 * one, whatever uses the library is compiled with the header beside it, and hw4_call.size tells where it was not. */
#define HW4_ABI 0

/* What functions return: 0, or one of the program's exit codes. hw4_error() has the sentence. */
#define HW4_OK 0
#define HW4_USAGE 64    /* something in the call is wrong */
#define HW4_BAD_DATA 65 /* the contract or the kernel does not take this problem, or hw4_check() found a value */
#define HW4_NO_GPU 69   /* no usable GPU, or a library without GPU code */
#define HW4_INTERNAL 70 /* an error of CUDA, or of this library */
#define HW4_OUT_OF_MEMORY 71

/* hw4_call.operation */
#define HW4_FORWARD 0
#define HW4_BACKWARD 1
/* hw4_call.element: of all tensors of a call */
#define HW4_FLOAT32 0
#define HW4_BF16 1
#define HW4_FP16 2
/* hw4_call.mask */
#define HW4_NO_MASK 0
#define HW4_CAUSAL 1 /* aligned bottom-right: query i of N_q sees the first N_k - N_q + 1 + i of N_k keys */
/* hw4_call.place: where the pointers of a call point */
#define HW4_HOST 0
#define HW4_DEVICE 1 /* memory of the calling thread's current GPU */

/* A tensor of all batches and heads. Strides are in elements; the columns of a row are neighbours. Where d is a
 * multiple of 4, rows have to begin at multiples of 4 elements and, where a row has a multiple of 16 bytes, of 16
 * bytes; the sentence of a refused call says which. */
typedef struct hw4_tensor {
    void* data; /* inputs are only read */
    int64_t batch, head, row;
} hw4_tensor;

/* What a row's logsumexp and the gradients are computed from: one for each query row, [batch][head][query]. */
typedef struct hw4_statistics {
    float m, origin, l;
} hw4_statistics;

/* One call. Set all of it to 0, then what you need. No output may overlap an input or another output. */
typedef struct hw4_call {
    size_t size;          /* sizeof(hw4_call) */
    const char* contract; /* "f32", "fixed", "fixed16", "bf16" or "fp16" */
    const char* kernel;   /* null: the fastest */
    int32_t operation, element, mask, place;
    int64_t batches, heads, kv_heads; /* kv_heads divides heads */
    int64_t queries, keys, dim;       /* N_q, N_k, d */
    /* 0: 1/sqrt(dim), and so is every number whose nearest float is that of 1/sqrt(dim). Else from 2^-100 to 2^100,
     * under fixed and fixed16 from 1/16 to 1. */
    double scale;
    /* Null: every batch has all keys. Else [batch], forward under f32, bf16 and fp16: how many keys each batch has, 1
     * to keys, the queries' own among them; keys is how many rows a batch of k and v has room for, and no byte depends
     * on what follows its own. The mask is that of so many keys. Host memory for HW4_HOST, and checked; device memory
     * for HW4_DEVICE: hw4_check() checks them, hw4_run() clamps them to 0..keys. Where a row of k and v is no multiple
     * of 16 bytes, a GPU copies all of k and v first, whatever the lengths. */
    const int32_t* lengths;
    hw4_tensor q, k, v;
    hw4_tensor o;               /* forward: written. backward: see statistics */
    hw4_tensor d_o, dq, dk, dv; /* backward: d_o is read, the others are written */
    float* lse;                 /* forward, written unless null: [batch][head][query], natural logarithm */
    /* forward: written unless null. backward: null, and forward is computed again; or those of the forward call with
     * the same inputs and contract, together with its o. */
    hw4_statistics* statistics;
    /* At least the bytes that hw4_plan() says, from a multiple of 64 on; no other call may use it until this one is
     * done. On the host it may be null: the library allocates it. */
    void* workspace;
    size_t workspace_bytes;
    void* stream;    /* a cudaStream_t; null: the default stream */
    int32_t threads; /* on the host; 0: one for each processor */
} hw4_call;

/* What a call needs. */
typedef struct hw4_needs {
    size_t size;            /* sizeof(hw4_needs), set by the caller */
    size_t workspace_bytes; /* at least */
    size_t most_workspace;  /* up to which more makes the call faster */
    size_t check_bytes;     /* the workspace of hw4_check() */
    const char* kernel;     /* the kernel that the call runs */
} hw4_needs;

/* Fills in *needs, or says why the call cannot be computed. It follows no pointer, but lengths, lse, statistics and,
 * under backward, o say by being null or not whether they are asked for or given. */
int hw4_plan(const hw4_call* call, hw4_needs* needs);

/* Computes the call. */
int hw4_run(const hw4_call* call);

/* Whether every input of the call is finite and within the contract's range: one pass over the inputs. Returns
 * HW4_BAD_DATA and names the first value or row that is not. On a GPU it waits for the stream. */
int hw4_check(const hw4_call* call);

/* The sentence of the calling thread's last failed call; "" before one failed. */
const char* hw4_error(void);

/* HW4_OK, or why calls with HW4_DEVICE are refused. */
int hw4_gpu(void);

int hw4_abi(void);             /* the library's HW4_ABI */
const char* hw4_version(void); /* of the library, "0.2.0" */
/* "f32.forward/1": the same revision means the same bytes. Null where the contract has no such operation. */
const char* hw4_revision(const char* contract, int32_t operation);

#ifdef __cplusplus
}
#endif
#endif
