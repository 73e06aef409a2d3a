// The operations of a training step, on the memory of whatever computes them: plain loops (reference.cpp, for seq), the
// processor's threads and vector units (cpu.cpp), or a GPU (gpu/machine.cu). arithmetic.h and orders.h define every
// rounding of them.
//
// A micro-batch has `sequences` sequences of `context` tokens; its rows are sequences * context, sequence after
// sequence. Matrices lie row by row without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "src/step/arithmetic.h"
#include "src/step/attention.h"
#include "src/step/linear.h"
#include "src/step/model.h"

namespace hw4::step {

// Memory of a machine; it goes with its owner.
template <class T>
using Owned = std::unique_ptr<T[], std::function<void(T*)>>;

// The tokens of a micro-batch, in host memory. Token i is to predict targets[i].
struct Tokens {
    int64_t sequences = 0;
    int64_t context = 0;
    std::vector<int32_t> inputs;
    std::vector<int32_t> targets;

    int64_t rows() const { return sequences * context; }
    // The sum of each sequence's rows, ascending; of_rows has a number for each row.
    std::vector<double> sums_of(const std::vector<double>& of_rows) const {
        std::vector<double> sums(static_cast<size_t>(sequences));
        for (size_t t = 0; t < of_rows.size(); ++t) {
            double& sum = sums[t / static_cast<size_t>(context)];
            sum = sum + of_rows[t];
        }
        return sums;
    }
};

class Machine {
public:
    virtual ~Machine() = default;

    // Throws Error (out_of_memory).
    virtual Owned<float> floats(size_t count) = 0;
    virtual Owned<RowStatistics> statistics(size_t count) = 0;
    // Memory that it took for its own use.
    virtual size_t scratch_bytes() const = 0;
    // Whether the processor reads and writes what floats() gives.
    virtual bool is_on_host() const = 0;
    // From and to host memory.
    virtual void put(float* to, const float* from, size_t count) = 0;
    virtual void get(float* to, const float* from, size_t count) = 0;
    virtual void clear(float* to, size_t count) = 0; // zeros

    // x = rows of the table.
    virtual void embed(const Tokens& tokens, const float* table, float* x, int64_t width) = 0;
    // d_table = TOKEN-SUM, all of it written.
    virtual void embed_back(const Tokens& tokens, const float* dx, float* d_table, int64_t vocabulary,
                            int64_t width) = 0;

    // y = x W^T, and where `residual` is not null y = residual + x W^T (which may be y itself). W is outputs x inputs.
    void linear(const float* x, const float* w, const float* residual, float* y, int64_t rows, int64_t inputs,
                int64_t outputs) {
        multiply({ProductKind::linear, x, w, y, rows, inputs, outputs, 0, residual});
    }
    // dx = dy W
    void linear_back(const float* dy, const float* w, float* dx, int64_t rows, int64_t inputs, int64_t outputs) {
        multiply({ProductKind::linear_back, dy, w, dx, rows, inputs, outputs});
    }
    // dw = TOKEN-SUM of dy^T x over the sequences
    void linear_weights(const float* dy, const float* x, float* dw, int64_t sequences, int64_t context, int64_t inputs,
                        int64_t outputs) {
        multiply({ProductKind::linear_weights, dy, x, dw, sequences * context, inputs, outputs, context});
    }
    virtual void multiply(const LinearProduct& of) = 0;

    // y = RMSNorm(x) * gain; `factors` gets 1/rms of each row.
    virtual void norm(const float* x, const float* gain, float* y, float* factors, int64_t rows, int64_t width) = 0;
    // dx = dx + the norm's gradient: dx comes with the residual's.
    virtual void norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx,
                           int64_t rows, int64_t width) = 0;
    // d_gain = TOKEN-SUM
    virtual void norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                           int64_t context, int64_t width) = 0;

    // qkv has rows of q, k, v, width columns each, heads one after the other in each. Rotates q and k in place, columns
    // 2i and 2i + 1 together; back = true: the other way round. `table` is in the machine's memory: [context][pair][2].
    virtual void rotate(float* qkv, const float* table, int64_t sequences, int64_t context, const Model& model,
                        bool back) = 0;
    // o has rows of width columns; `statistics` are [sequence][head][token].
    void attend(const float* qkv, float* o, RowStatistics* statistics, int64_t sequences, int64_t context,
                const Model& model) {
        Attention of = attention_of(kForward, qkv, sequences, context, model);
        of.out[0] = heads_of(of.problem, o, 0, 1);
        of.statistics = statistics;
        attention(of);
    }
    // d_o has rows as o, d_qkv as qkv.
    void attend_back(const float* qkv, const float* o, const RowStatistics* statistics, const float* d_o, float* d_qkv,
                     int64_t sequences, int64_t context, const Model& model) {
        Attention of = attention_of(kBackward, qkv, sequences, context, model);
        of.in[3] = heads_of(of.problem, d_o, 0, 1);
        of.forward_out = heads_of(of.problem, o, 0, 1);
        for (int64_t i = 0; i < 3; ++i) of.out[i] = heads_of(of.problem, d_qkv, i, 3);
        of.statistics = const_cast<RowStatistics*>(statistics); // NOLINT: backward reads them
        attention(of);
    }
    virtual void attention(const Attention& of) = 0;

    // gate_up has rows of u, v, hidden columns each; h = silu(u) * v
    virtual void swiglu(const float* gate_up, float* h, int64_t rows, int64_t hidden) = 0;
    virtual void swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows, int64_t hidden) = 0;

    // Logits become their gradients, times `share`, which is 1 / (tokens of the global batch). Returns each sequence's
    // sum of losses, its tokens ascending; one that is not finite means that the step must be refused (arithmetic.h).
    virtual std::vector<double> cross_entropy(float* logits, const Tokens& tokens, int64_t vocabulary, float share) = 0;

    // a = a + b
    virtual void add(float* a, const float* b, size_t count) = 0;
    // The sum of squares of each kSegment floats, into host memory; count is a multiple of kSegment.
    virtual void squares(const float* x, size_t count, float* sums) = 0;
    virtual void adamw(float* p, const float* g, float* m, float* v, size_t count, const Adam& step) = 0;

    // A place between operations. laps() waits until all is done and gives the seconds from each place to the next; the
    // places are forgotten.
    virtual void mark() = 0;
    virtual std::vector<double> laps() = 0;
    // The GPU's stream in which operations follow one another, for another's between them, which finds all earlier ones
    // complete; null on a processor.
    virtual void* stream() { return nullptr; }
};

// seq train's: one thread and plain loops that follow arithmetic.h and orders.h word for word.
std::unique_ptr<Machine> make_reference(const Contract& contract = kF32);

// hw4's on a CPU: threads, 0 for one a processor, and vector units.
struct Kernels;
std::vector<const Kernels*> supported_kernels(); // of this processor, the fastest last
std::unique_ptr<Machine> make_cpu(int threads, const Contract& contract = kF32,
                                  const Kernels& kernels = *supported_kernels().back());

// hw4's on the GPU of that number, counted round, of compute capability 8.0 or later. Throws Error (no_gpu,
// out_of_memory) where it cannot be used, also where bf16 lacks cuBLASLt.
std::unique_ptr<Machine> make_gpu(int card = 0, const Contract& contract = kF32);

} // namespace hw4::step
