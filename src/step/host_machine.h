// A machine in host memory. What is computed row by row is here once, for any vector unit and any number of threads;
// sums over rows and products are the machine's own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "src/base/error.h"
#include "src/cpu/aligned_memory.h"
#include "src/step/kernels.h"
#include "src/step/machine.h"
#include "src/step/team.h"

namespace hw4::step {

template <class T>
Owned<T> allocate_on_host(size_t count) {
    try {
        return {static_cast<T*>(cpu::allocate_bytes(count * sizeof(T)).release()), [](T* at) { std::free(at); }};
    } catch (const std::bad_alloc&) {
        throw Error(ExitCode::out_of_memory, "a training step needs " + std::to_string(count * sizeof(T)) +
                                                 " bytes of host memory more, which cannot be had");
    }
}

// Floats of any content, as many as the largest operation needed.
class Buffer {
public:
    size_t bytes() const { return static_cast<size_t>(floats_) * sizeof(float); }

    // Throws Error (out_of_memory).
    float* of(int64_t floats) {
        if (floats > floats_) {
            floats_ = 0;
            memory_.reset(); // first: there may not be enough for both
            memory_ = allocate_on_host<float>(static_cast<size_t>(floats));
            floats_ = floats;
        }
        return memory_.get();
    }

private:
    Owned<float> memory_;
    int64_t floats_ = 0;
};

inline void add_floats(float* a, const float* b, int64_t count) {
    for (int64_t i = 0; i < count; ++i) a[i] = a[i] + b[i];
}

class HostMachine : public Machine {
public:
    HostMachine(const Kernels& kernels, int threads) : kernels_(kernels), team_(threads) {}

    Owned<float> floats(size_t count) override { return allocate_on_host<float>(count); }
    Owned<RowStatistics> statistics(size_t count) override { return allocate_on_host<RowStatistics>(count); }
    size_t scratch_bytes() const override { return operands_.bytes(); }
    bool is_on_host() const override { return true; }
    void put(float* to, const float* from, size_t count) override { std::copy_n(from, count, to); }
    void get(float* to, const float* from, size_t count) override { std::copy_n(from, count, to); }
    void clear(float* to, size_t count) override {
        numbers(count, [&](int64_t first, int64_t some, int) { std::fill_n(to + first, some, 0.0f); });
    }

    void embed(const Tokens& tokens, const float* table, float* x, int64_t width) override {
        rows(tokens.rows(), width, [&](int64_t t) {
            std::copy_n(table + tokens.inputs[static_cast<size_t>(t)] * width, width, x + t * width);
        });
    }
    void norm(const float* x, const float* gain, float* y, float* factors, int64_t count, int64_t width) override {
        rows(count, width,
             [&](int64_t row) { kernels_.norm(x + row * width, gain, y + row * width, factors + row, width); });
    }
    void norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx, int64_t count,
                   int64_t width) override {
        rows(count, width, [&](int64_t row) {
            kernels_.norm_back(x + row * width, gain, factors[row], dy + row * width, dx + row * width, width);
        });
    }
    void rotate(float* qkv, const float* table, int64_t sequences, int64_t context, const Model& model,
                bool back) override {
        const int64_t dim = model.head_width();
        rows(sequences * context, 3 * model.width, [&](int64_t t) {
            for (int64_t head = 0; head < 2 * model.heads; ++head) // q's, then k's
                kernels_.rotate(qkv + t * 3 * model.width + head * dim, table + t % context * dim, dim / 2, back);
        });
    }
    // Kernels take heads as a case file has them, [sequence][tensor][head][token].
    void attention(const Attention& of) override {
        const Problem& problem = of.problem;
        const List<Operand>& inputs = problem.operation->inputs;
        const List<Operand>& outputs = problem.operation->outputs;
        const auto row = static_cast<size_t>(problem.dim);
        float* const in = operands_.of(static_cast<int64_t>(inputs.size() + outputs.size() + 1) * of.floats());
        float* const out = in + static_cast<int64_t>(inputs.size()) * of.floats();
        float* const forward_out = out + static_cast<int64_t>(outputs.size()) * of.floats();
        const auto copy = [&](const Tensor& to, const Tensor& from) {
            rows(problem.units(), kPieceFloats, [&](int64_t unit) {
                const int64_t sequence = unit / problem.heads;
                const int64_t head = unit % problem.heads;
                for (int64_t t = 0; t < problem.queries; ++t)
                    std::memcpy(to.at(sequence, head, t), from.at(sequence, head, t), problem.row_bytes());
            });
        };
        for (size_t i = 0; i < inputs.size(); ++i) copy(tensor_at(problem, inputs, i, in, row), of.in[i]);
        if (of.is_backward()) copy(tensor_at(problem, kForward.outputs, 0, forward_out, row), of.forward_out);
        compute(problem, in, of.is_backward() ? forward_out : nullptr, of.statistics, out);
        for (size_t i = 0; i < outputs.size(); ++i) copy(of.out[i], tensor_at(problem, outputs, i, out, row));
    }
    void swiglu(const float* gate_up, float* h, int64_t count, int64_t hidden) override {
        rows(count, hidden, [&](int64_t row) {
            const float* const u = gate_up + row * 2 * hidden;
            kernels_.swiglu(u, u + hidden, h + row * hidden, hidden);
        });
    }
    void swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t count, int64_t hidden) override {
        rows(count, hidden, [&](int64_t row) {
            const float* const u = gate_up + row * 2 * hidden;
            float* const du = d_gate_up + row * 2 * hidden;
            kernels_.swiglu_back(u, u + hidden, dh + row * hidden, du, du + hidden, hidden);
        });
    }
    std::vector<double> cross_entropy(float* logits, const Tokens& tokens, int64_t vocabulary, float share) override {
        std::vector<double> losses(static_cast<size_t>(tokens.rows()));
        rows(tokens.rows(), vocabulary, [&](int64_t t) {
            const auto i = static_cast<size_t>(t);
            losses[i] = kernels_.cross_entropy(logits + t * vocabulary, tokens.targets[i], vocabulary, share);
        });
        return tokens.sums_of(losses);
    }

    void add(float* a, const float* b, size_t count) override {
        numbers(count, [&](int64_t first, int64_t some, int) { add_floats(a + first, b + first, some); });
    }
    void squares(const float* x, size_t count, float* sums) override {
        rows(static_cast<int64_t>(count) / kSegment, kSegment,
             [&](int64_t i) { sums[i] = kernels_.squares(x + i * kSegment); });
    }
    void adamw(float* p, const float* g, float* m, float* v, size_t count, const Adam& step) override {
        numbers(count, [&](int64_t first, int64_t some, int) {
            kernels_.adamw(p + first, g + first, m + first, v + first, some, step);
        });
    }

    void mark() override { marks_.push_back(Clock::now()); }
    std::vector<double> laps() override {
        std::vector<double> seconds;
        for (size_t i = 1; i < marks_.size(); ++i)
            seconds.push_back(std::chrono::duration<double>(marks_[i] - marks_[i - 1]).count());
        marks_.clear();
        return seconds;
    }

protected:
    static constexpr int64_t kPieceFloats = 1 << 14; // a thread takes as many at a time
    // The rows of `width` floats in a piece, at least one.
    static int64_t piece_of(int64_t width) { return std::max<int64_t>(kPieceFloats / width, 1); }

    // Computes attention under f32, on operands as in a file. Forward has a null `forward_out` and writes the
    // statistics; backward gets forward's O and statistics, and need not use them. It may change `in`.
    virtual void compute(const Problem& problem, float* in, const float* forward_out, RowStatistics* statistics,
                         float* out) = 0;

    template <class OfRow>
    void rows(int64_t count, int64_t width, const OfRow& work) {
        team_.pieces(count, piece_of(width), [&](int64_t first, int64_t some, int) {
            for (int64_t row = first; row < first + some; ++row) work(row);
        });
    }
    template <class Work>
    void numbers(size_t count, const Work& work) {
        team_.pieces(static_cast<int64_t>(count), kPieceFloats, work);
    }

    const Kernels& kernels_;
    Team team_;

private:
    using Clock = std::chrono::steady_clock;

    Buffer operands_;
    std::vector<Clock::time_point> marks_;
};

} // namespace hw4::step
