// A machine in host memory. What is computed row by row is here once, for any vector unit and any number of threads;
// sums over rows and products are the machine's own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "src/base/error.h"
#include "src/cpu/aligned_memory.h"
#include "src/problem/problem.h"
#include "src/step/kernels.h"
#include "src/step/machine.h"

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
class Room {
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

// The heads of a micro-batch: as columns of its rows, and as a case file has them, [sequence][matrix][head][token].
struct HeadLayout {
    int64_t sequences;
    int64_t context;
    const Model& model;

    Problem problem(const Operation& operation) const {
        Problem problem(sequences, context, model.head_width());
        problem.heads = problem.kv_heads = model.heads;
        problem.mask = Mask::causal;
        problem.operation = &operation;
        return problem;
    }
    int64_t units() const { return sequences * model.heads; }
    int64_t floats() const { return sequences * context * model.width; } // of a matrix

    struct Place {
        int64_t matrix;
        int64_t matrices;
    };
    void take(int64_t unit, const float* rows, Place in_rows, float* file, Place in_file) const {
        for (int64_t t = 0; t < context; ++t)
            std::copy_n(rows + of_rows(unit, in_rows, t), model.head_width(), file + of_file(unit, in_file, t));
    }
    void give(int64_t unit, const float* file, Place in_file, float* rows, Place in_rows) const {
        for (int64_t t = 0; t < context; ++t)
            std::copy_n(file + of_file(unit, in_file, t), model.head_width(), rows + of_rows(unit, in_rows, t));
    }

private:
    // Where a token of a unit begins.
    int64_t of_rows(int64_t unit, Place in, int64_t t) const {
        const int64_t row = unit / model.heads * context + t;
        return (row * in.matrices + in.matrix) * model.width + unit % model.heads * model.head_width();
    }
    int64_t of_file(int64_t unit, Place in, int64_t t) const {
        const int64_t head = (unit / model.heads * in.matrices + in.matrix) * model.heads + unit % model.heads;
        return (head * context + t) * model.head_width();
    }
};

class HostMachine : public Machine {
public:
    explicit HostMachine(const Kernels& kernels) : kernels_(kernels) {}

    Owned<float> floats(size_t count) override { return allocate_on_host<float>(count); }
    Owned<RowStatistics> statistics(size_t count) override { return allocate_on_host<RowStatistics>(count); }
    size_t scratch_bytes() const override { return operands_.bytes(); }
    bool is_on_host() const override { return true; }
    void put(float* to, const float* from, size_t count) override { std::copy_n(from, count, to); }
    void get(float* to, const float* from, size_t count) override { std::copy_n(from, count, to); }
    void fill(float* to, float value, size_t count) override {
        numbers(count, [&](int64_t first, int64_t some) { std::fill_n(to + first, some, value); });
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
    void attend(const float* qkv, float* o, RowStatistics* statistics, int64_t sequences, int64_t context,
                const Model& model) override {
        const HeadLayout heads{sequences, context, model};
        float* const in = operands_.of(4 * heads.floats());
        float* const out = in + 3 * heads.floats();
        rows(heads.units(), kPieceFloats, [&](int64_t unit) {
            for (int64_t i = 0; i < 3; ++i) heads.take(unit, qkv, {i, 3}, in, {i, 3});
        });
        compute(heads.problem(kForward), in, nullptr, statistics, out);
        rows(heads.units(), kPieceFloats, [&](int64_t unit) { heads.give(unit, out, {0, 1}, o, {0, 1}); });
    }

    void attend_back(const float* qkv, const float* o, const RowStatistics* statistics, const float* d_o, float* d_qkv,
                     int64_t sequences, int64_t context, const Model& model) override {
        const HeadLayout heads{sequences, context, model};
        float* const in = operands_.of(8 * heads.floats());
        float* const forward_out = in + 4 * heads.floats();
        float* const out = in + 5 * heads.floats();
        rows(heads.units(), kPieceFloats, [&](int64_t unit) {
            for (int64_t i = 0; i < 3; ++i) heads.take(unit, qkv, {i, 3}, in, {i, 4});
            heads.take(unit, d_o, {0, 1}, in, {3, 4});
            heads.take(unit, o, {0, 1}, forward_out, {0, 1});
        });
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): backward reads them
        compute(heads.problem(kBackward), in, forward_out, const_cast<RowStatistics*>(statistics), out);
        rows(heads.units(), kPieceFloats, [&](int64_t unit) {
            for (int64_t i = 0; i < 3; ++i) heads.give(unit, out, {i, 3}, d_qkv, {i, 3});
        });
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
        numbers(count, [&](int64_t first, int64_t some) { add_floats(a + first, b + first, some); });
    }
    void squares(const float* x, size_t count, float* sums) override {
        rows(static_cast<int64_t>(count) / kSegment, kSegment,
             [&](int64_t i) { sums[i] = kernels_.squares(x + i * kSegment); });
    }
    void adamw(float* p, const float* g, float* m, float* v, size_t count, const Adam& step) override {
        numbers(count, [&](int64_t first, int64_t some) {
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
    static constexpr int64_t kPieceFloats = 1 << 14; // that a thread takes at a time
    // Rows of so many floats, at least one.
    static int64_t piece_of(int64_t width) { return std::max<int64_t>(kPieceFloats / width, 1); }

    using Work = std::function<void(int64_t first, int64_t count)>;
    // All of the work, in pieces of so many things.
    virtual void in_pieces(int64_t things, int64_t piece, const Work& work) = 0;
    // Contract f32, operands as in a file. Forward, whose `forward_out` is null, writes the statistics; backward gets
    // forward's and its O, and need not use them.
    virtual void compute(const Problem& problem, const float* in, const float* forward_out, RowStatistics* statistics,
                         float* out) = 0;

    template <class OfRow>
    void rows(int64_t count, int64_t width, const OfRow& work) {
        in_pieces(count, piece_of(width), [&](int64_t first, int64_t some) {
            for (int64_t row = first; row < first + some; ++row) work(row);
        });
    }
    void numbers(size_t count, const Work& work) { in_pieces(static_cast<int64_t>(count), kPieceFloats, work); }

    const Kernels& kernels_;

private:
    using Clock = std::chrono::steady_clock;

    Room operands_;
    std::vector<Clock::time_point> marks_;
};

} // namespace hw4::step
