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
 * every processor, for any batch, strides and threads; under bf16 and fp16 they are the same on every run of the
 * same kernel. The values must be finite and within the contract's range; hw4_check() checks them. Other values give
 * meaningless outputs, but no call hangs or writes outside its outputs. */
#ifndef HW4_H
#define HW4_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when a struct or a function below changes in a way that old callers notice. 0 means that there is no release
 * yet: until the first one, compile a program with the header of the library that it loads. hw4_call.size shows a
 * mismatch. */
#define HW4_ABI 0

/* Functions return 0 or one of the program's exit codes. hw4_error() has the message. */
#define HW4_OK 0
#define HW4_USAGE 64    /* something in the call is wrong */
#define HW4_BAD_DATA 65 /* the contract or the kernel refuses this problem, or hw4_check() found a bad value */
#define HW4_NO_GPU 69   /* no usable GPU, or a library without GPU code */
#define HW4_INTERNAL 70 /* an error of CUDA, or of this library */
#define HW4_OUT_OF_MEMORY 71

/* hw4_call.operation */
#define HW4_FORWARD 0
#define HW4_BACKWARD 1
/* hw4_call.element: the type of all tensors of a call */
#define HW4_FLOAT32 0
#define HW4_BF16 1
#define HW4_FP16 2
/* hw4_call.mask */
#define HW4_NO_MASK 0
#define HW4_CAUSAL 1 /* aligned bottom-right: query i of N_q sees the first N_k - N_q + 1 + i of N_k keys */
/* hw4_call.place: where the pointers of a call point */
#define HW4_HOST 0
#define HW4_DEVICE 1 /* memory of the calling thread's current GPU */

/* A tensor of all batches and heads. Strides are in elements; the columns of a row are contiguous. If d is a
 * multiple of 4, every row must begin at a multiple of 4 elements; if a row has a multiple of 16 bytes, also at a
 * multiple of 16 bytes. The message of a refused call says which. */
typedef struct hw4_tensor {
    void* data; /* inputs are only read */
    int64_t batch, head, row;
} hw4_tensor;

/* The logsumexp and the gradients are computed from these statistics: one for each query row, [batch][head][query]. */
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
    /* d_v, the columns of v, o, d_o and dv; 0: dim. f32, fixed and fixed16 take another number than dim. The bytes are
     * as for rows padded with zeros to the larger of the two, with dim's scale; the workspace holds such rows. */
    int64_t value_dim;
    /* 0 means 1/sqrt(dim), and so does every number with the same nearest float as 1/sqrt(dim). Other scales are from
     * 2^-100 to 2^100, under fixed and fixed16 from 1/16 to 1. */
    double scale;
    /* 0: no window. Otherwise a query sees only the last `window` keys that the mask leaves it, including its own.
     * Needs HW4_CAUSAL; only forward under f32 has windows. */
    int64_t window;
    /* Null: every batch has all keys. Otherwise [batch], for forward under f32, bf16 and fp16: the number of keys of
     * each batch, 1 to keys, including the queries' own. `keys` is then the number of rows that k and v have room for;
     * no output byte depends on rows behind a batch's last key. The mask is that of the batch's number of keys. Host
     * memory for HW4_HOST, and checked; device memory for HW4_DEVICE: hw4_check() checks them, hw4_run() clamps them
     * to 0..keys. If a row of k and v is no multiple of 16 bytes, a GPU first copies all of k and v. */
    const int32_t* lengths;
    /* Null: the keys of a batch are contiguous. Otherwise k and v are (page_count, kv_heads, page_keys, dim), `batch`
     * of their hw4_tensor is the stride of a page, and this is a table [batch][page_columns]: key j of a batch is row
     * j % page_keys of page pages[batch][j / page_keys]. Needs lengths; keys is at most page_columns * page_keys;
     * page_keys is 16, 32, 64, 128 or 256. No byte depends on where pages lie, entries behind a batch's last key are
     * not read, and batches may share pages. Host memory for HW4_HOST, and checked; device memory for HW4_DEVICE:
     * hw4_check() checks the entries, hw4_run() replaces an entry out of range by page 0. On the host, the library
     * first copies the keys of every batch into the workspace. On a GPU their rows have a multiple of 16 bytes, and
     * value_dim is dim. */
    const int32_t* pages;
    int64_t page_keys, page_columns, page_count;
    hw4_tensor q, k, v;
    hw4_tensor o;               /* forward: written. backward: see statistics */
    hw4_tensor d_o, dq, dk, dv; /* backward: d_o is read, the others are written */
    float* lse;                 /* forward, written unless null: [batch][head][query], natural logarithm */
    /* forward: written unless null. backward: the statistics of the forward call with the same inputs and contract,
     * together with its o; null: the library computes forward again. */
    hw4_statistics* statistics;
    /* At least as many bytes as hw4_plan() says, at an address that is a multiple of 64. No other call may use the
     * workspace until this one is done. On the host it may be null: the library allocates it. */
    void* workspace;
    size_t workspace_bytes;
    void* stream;    /* a cudaStream_t; null: the default stream */
    int32_t threads; /* on the host; 0: one for each processor */
} hw4_call;

/* hw4_append_call.rope_layout: which two columns of a row are rotated together */
#define HW4_ROPE_HALVES 0      /* i and i + dim/2 (transformers' default) */
#define HW4_ROPE_INTERLEAVED 1 /* 2i and 2i + 1 */

/* New rows for a cache. Set all of it to 0, then what you need. */
typedef struct hw4_append_call {
    size_t size; /* sizeof(hw4_append_call) */
    int32_t element, place;
    int32_t rope_layout;
    int64_t batches, kv_heads;
    int64_t tokens;    /* new rows of each batch */
    int64_t keys, dim; /* rows that the cache of a batch has, at most page_columns * page_keys; columns */
    int64_t value_dim; /* columns of v and v_cache; 0: dim */
    /* [batch]: the number of keys of each batch AFTER the call, including the new ones, as hw4_call.lengths: new row i
     * of a batch becomes key lengths[batch] - tokens + i. Host memory for HW4_HOST: checked, tokens to keys. Device
     * memory for HW4_DEVICE: a row whose key would not be 0 to keys - 1 is not written, and its row of q is rotated at
     * position 0. */
    const int32_t* lengths;
    hw4_tensor k, v;             /* the new rows, read: (batches, kv_heads, tokens, dim) */
    hw4_tensor k_cache, v_cache; /* written: (batches, kv_heads, keys, dim), or pages as in hw4_call */
    /* As in hw4_call. On the host the pages of the new rows are checked; on a GPU a row whose page is out of range is
     * not written. */
    const int32_t* pages;
    int64_t page_keys, page_columns, page_count;
    /* Null: rows are copied. Otherwise a table like that of hw4_rope_table(), for at least `keys` positions, in the
     * same memory as the tensors: new rows of k and q are rotated at the index of their key. In float32, x = fma(a,
     * cos, -(b * sin)), y = fma(a, sin, b * cos), rounded once to the element. dim is even. */
    const float* rope;
    int64_t rope_positions;
    int64_t heads;       /* of q; 0: there is no q */
    hw4_tensor q, q_out; /* with rope alone: (batches, heads, tokens, dim); q_out may be q */
    void* stream;        /* a cudaStream_t; null: the default stream */
} hw4_append_call;

/* What a call needs. */
typedef struct hw4_needs {
    size_t size;            /* sizeof(hw4_needs), set by the caller */
    size_t workspace_bytes; /* at least */
    size_t most_workspace;  /* a larger one makes no call faster */
    size_t check_bytes;     /* the workspace of hw4_check() */
    const char* kernel;     /* the kernel that the call runs */
} hw4_needs;

/* Fills in *needs, or says why the call cannot be computed. It reads no memory behind pointers. It only asks whether
 * lengths, pages, lse, statistics and, for backward, o are null. */
int hw4_plan(const hw4_call* call, hw4_needs* needs);

/* Computes the call. */
int hw4_run(const hw4_call* call);

/* Checks that every input of the call is finite and within the contract's range, in one pass over the inputs. If not,
 * returns HW4_BAD_DATA and names the first such value or row. On a GPU it waits for the stream. */
int hw4_check(const hw4_call* call);

/* Writes new rows into a cache, and rotates them (RoPE) if asked. On a GPU it puts one kernel into the stream, needs no
 * workspace and no plan, and may be captured in a CUDA graph. The rows have the same bytes on every machine. */
int hw4_append(const hw4_append_call* call);

/* RoPE's table [position][pair][2], positions * dim floats in host memory: cosine and sine of
 * position * theta^(-2 * pair / dim), each rounded once from doubles that only + - * / compute: the same bytes on
 * every machine. theta is 1 to 1e12, positions 1 to 2^20, dim even and at most 65536. */
int hw4_rope_table(double theta, int64_t positions, int64_t dim, float* table);

/* The message of the calling thread's last failed call; "" if no call failed. */
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
