// A machine of the training step that measures another: seconds by operation and by phase, and the memory of the step,
// taken and in use. Seconds are taken between marks of the measured machine, which computes without stopping. It may
// compute attention in the naive form instead.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "src/bench/memory_in_use.h"
#include "src/bench/naive.h"
#include "src/step/machine.h"

namespace hw4::bench {

class MeasuredMachine : public step::Machine {
public:
    // The machine has `most` bytes. Allocating more throws OutOfMemory. `naive`: computes attention; null: the machine
    // does. It keeps the weights of every layer from forward to backward, as PyTorch's autograd does.
    MeasuredMachine(std::unique_ptr<step::Machine> machine, size_t most,
                    std::unique_ptr<NaiveAttention> naive = nullptr, int64_t context = 0)
        : machine_(std::move(machine)), memory_(most), naive_(std::move(naive)), context_(context) {}

    // A mark around each operation costs a GPU about one percent of its time; without these marks only phases have
    // seconds, each until the next one begins.
    struct Operations {
        double seconds = 0;
        int calls = 0;
    };
    struct Seconds { // of a step
        std::array<std::array<Operations, std::size(kStepOperations)>, std::size(kStepPhases)> of_operation{};
        std::array<double, std::size(kStepPhases)> of_phase{};
    };
    void begin_step(bool each_operation) {
        each_operation_ = each_operation;
        machine_->laps(); // discards earlier laps
        laps_.clear();
        uses_.clear();
    }
    // Waits until the step is complete.
    Seconds end_step() {
        machine_->mark();
        seconds_of_laps_ = machine_->laps();
        Seconds seconds;
        for (size_t i = 0; i < laps_.size(); ++i) {
            if (!laps_[i].is_measured) continue;
            const auto phase = static_cast<size_t>(laps_[i].phase);
            seconds.of_phase[phase] += seconds_of_laps_[i];
            if (!each_operation_) continue;
            Operations& operations = seconds.of_operation[phase][static_cast<size_t>(laps_[i].operation)];
            operations.seconds += seconds_of_laps_[i];
            ++operations.calls;
        }
        return seconds;
    }

    size_t peak_bytes() const { return memory_.peak() + machine_->scratch_bytes(); }
    size_t peak_before_optimizer() const { return before_optimizer_; }
    // The last step's, which had marks around each operation; of its first forward alone, or whole.
    MemoryInUse in_use(bool forward_alone) const {
        return memory_in_use(held_, uses_, seconds_of_laps_, machine_->scratch_bytes(), forward_alone);
    }

    step::Owned<float> floats(size_t count) override {
        return counted<float>(count, [&] { return machine_->floats(count); });
    }
    // A layer's: the naive form's weights are taken with them, a row of `context` for each.
    step::Owned<RowStatistics> statistics(size_t count) override {
        step::Owned<RowStatistics> taken = counted<RowStatistics>(count, [&] { return machine_->statistics(count); });
        if (naive_ == nullptr) return taken;
        const size_t scores = count * static_cast<size_t>(context_);
        weights_[taken.get()] = floats(scores);
        if (scores > score_gradient_floats_) score_gradients_ = floats(score_gradient_floats_ = scores);
        return taken;
    }
    size_t scratch_bytes() const override { return machine_->scratch_bytes(); }
    bool is_on_host() const override { return machine_->is_on_host(); }
    void put(float* to, const float* from, size_t count) override { machine_->put(to, from, count); }
    void get(float* to, const float* from, size_t count) override { machine_->get(to, from, count); }
    void fill(float* to, float value, size_t count) override {
        timed(StepOperation::sums, {out(to, count)}, [&] { machine_->fill(to, value, count); });
    }

    void embed(const step::Tokens& tokens, const float* table, float* x, int64_t width) override {
        phase_ = StepPhase::forward;
        timed(StepOperation::embedding, {in(table, 1), out(x, tokens.rows() * width)},
              [&] { machine_->embed(tokens, table, x, width); });
    }
    void embed_back(const step::Tokens& tokens, const float* dx, float* d_table, int64_t vocabulary,
                    int64_t width) override {
        timed(StepOperation::embedding, {in(dx, tokens.rows() * width), out(d_table, vocabulary * width)},
              [&] { machine_->embed_back(tokens, dx, d_table, vocabulary, width); });
    }
    void linear(const float* x, const float* w, const float* residual, float* y, int64_t rows, int64_t inputs,
                int64_t outputs) override {
        timed(StepOperation::products,
              {in(x, rows * inputs), in(w, outputs * inputs), in(residual, rows * outputs), out(y, rows * outputs)},
              [&] { machine_->linear(x, w, residual, y, rows, inputs, outputs); });
    }
    void linear_back(const float* dy, const float* w, float* dx, int64_t rows, int64_t inputs,
                     int64_t outputs) override {
        timed(StepOperation::products, {in(dy, rows * outputs), in(w, outputs * inputs), out(dx, rows * inputs)},
              [&] { machine_->linear_back(dy, w, dx, rows, inputs, outputs); });
    }
    void linear_weights(const float* dy, const float* x, float* dw, int64_t sequences, int64_t context, int64_t inputs,
                        int64_t outputs) override {
        const int64_t rows = sequences * context;
        timed(StepOperation::products, {in(dy, rows * outputs), in(x, rows * inputs), out(dw, outputs * inputs)},
              [&] { machine_->linear_weights(dy, x, dw, sequences, context, inputs, outputs); });
    }
    void norm(const float* x, const float* gain, float* y, float* factors, int64_t rows, int64_t width) override {
        timed(StepOperation::norms, {in(x, rows * width), in(gain, width), out(y, rows * width), out(factors, rows)},
              [&] { machine_->norm(x, gain, y, factors, rows, width); });
    }
    void norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx, int64_t rows,
                   int64_t width) override {
        timed(StepOperation::norms,
              {in(x, rows * width), in(gain, width), in(factors, rows), in(dy, rows * width), in(dx, rows * width)},
              [&] { machine_->norm_back(x, gain, factors, dy, dx, rows, width); });
    }
    void norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                   int64_t context, int64_t width) override {
        const int64_t rows = sequences * context;
        timed(StepOperation::norms, {in(x, rows * width), in(factors, rows), in(dy, rows * width), out(d_gain, width)},
              [&] { machine_->norm_gain(x, factors, dy, d_gain, sequences, context, width); });
    }
    void rotate(float* qkv, const float* table, int64_t sequences, int64_t context, const step::Model& model,
                bool back) override {
        timed(StepOperation::rope,
              {in(qkv, 3 * sequences * context * model.width), in(table, context * model.head_width())},
              [&] { machine_->rotate(qkv, table, sequences, context, model, back); });
    }
    void attention(const step::Attention& of) override {
        const auto tensors = [&](const Tensor& first, int64_t count) {
            return in(static_cast<const float*>(first.data), count * of.floats());
        };
        const auto written = [](Use use) {
            use.is_written = true;
            return use;
        };
        const bool back = of.is_backward();
        const int64_t rows = of.problem.units() * of.problem.queries;
        float* const weights = naive_ == nullptr ? nullptr : weights_.at(of.statistics).get();
        float* const gradients = back ? score_gradients_.get() : nullptr;
        const Use scores = in(weights, rows * of.problem.keys);
        const Use statistics = in(naive_ == nullptr ? of.statistics : nullptr, rows);
        timed(StepOperation::attention,
              {tensors(of.in[0], 3), tensors(of.in[3], back ? 1 : 0), tensors(of.forward_out, back ? 1 : 0),
               back ? scores : written(scores), back ? statistics : written(statistics),
               out(gradients, rows * of.problem.keys), written(tensors(of.out[0], back ? 3 : 1))},
              [&] {
                  if (naive_ == nullptr) return machine_->attention(of);
                  naive_->compute(of, weights, gradients, machine_->stream());
              });
    }
    void swiglu(const float* gate_up, float* h, int64_t rows, int64_t hidden) override {
        timed(StepOperation::swiglu, {in(gate_up, 2 * rows * hidden), out(h, rows * hidden)},
              [&] { machine_->swiglu(gate_up, h, rows, hidden); });
    }
    void swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows, int64_t hidden) override {
        timed(StepOperation::swiglu,
              {in(gate_up, 2 * rows * hidden), in(dh, rows * hidden), out(d_gate_up, 2 * rows * hidden)},
              [&] { machine_->swiglu_back(gate_up, dh, d_gate_up, rows, hidden); });
    }
    std::vector<double> cross_entropy(float* logits, const step::Tokens& tokens, int64_t vocabulary,
                                      float share) override {
        std::vector<double> losses;
        timed(StepOperation::loss, {in(logits, tokens.rows() * vocabulary)},
              [&] { losses = machine_->cross_entropy(logits, tokens, vocabulary, share); });
        phase_ = StepPhase::backward;
        return losses;
    }
    void add(float* a, const float* b, size_t count) override {
        timed(StepOperation::sums, {in(a, count), in(b, count)}, [&] { machine_->add(a, b, count); });
    }
    void squares(const float* x, size_t count, float* sums) override {
        phase_ = StepPhase::optimizer;
        before_optimizer_ = peak_bytes();
        timed(StepOperation::optimizer, {in(x, count)}, [&] { machine_->squares(x, count, sums); });
    }
    void adamw(float* p, const float* g, float* m, float* v, size_t count, const step::Adam& adam) override {
        timed(StepOperation::optimizer, {in(p, count), in(g, count), in(m, count), in(v, count)},
              [&] { machine_->adamw(p, g, m, v, count, adam); });
    }
    void mark() override { machine_->mark(); }
    std::vector<double> laps() override { return machine_->laps(); }
    void* stream() override { return machine_->stream(); }

private:
    // Memory that an operation reads, or writes without reading it; null: none.
    template <class T, class Count>
    static Use in(const T* at, Count count) {
        return {reinterpret_cast<uintptr_t>(at), static_cast<size_t>(count) * sizeof(T)};
    }
    template <class T, class Count>
    static Use out(const T* at, Count count) {
        Use use = in(at, count);
        use.is_written = true;
        return use;
    }

    template <class T, class Take>
    step::Owned<T> counted(size_t count, const Take& take) {
        memory_.need(count * sizeof(T), "step");
        step::Owned<T> memory = take();
        const Allocation allocation = memory_.take(count * sizeof(T), "step");
        const auto free = memory.get_deleter();
        held_[reinterpret_cast<uintptr_t>(memory.get())] = allocation.bytes;
        return {memory.release(), [this, free, allocation](T* at) {
                    held_.erase(reinterpret_cast<uintptr_t>(at));
                    free(at);
                    memory_.give_back(allocation);
                }};
    }

    template <class Work>
    void timed(StepOperation operation, std::initializer_list<Use> uses, const Work& work) {
        const auto mark = [&](bool is_measured) {
            laps_.push_back({operation, phase_, is_measured});
            machine_->mark();
        };
        if (each_operation_ || laps_.empty() || laps_.back().phase != phase_) mark(true);
        work();
        if (!each_operation_) return;
        for (Use use : uses) {
            use.lap = laps_.size() - 1;
            use.operation = operation;
            use.phase = phase_;
            if (use.at != 0 && use.bytes > 0) uses_.push_back(use);
        }
        mark(false); // until the next operation the ranks may communicate
    }

    std::unique_ptr<step::Machine> machine_;
    MemoryCount memory_;
    std::map<uintptr_t, size_t> held_; // bytes of all allocations, by their addresses
    bool each_operation_ = false;
    struct Lap { // from one mark to the next
        StepOperation operation;
        StepPhase phase;
        bool is_measured;
    };
    std::vector<Lap> laps_;
    std::vector<double> seconds_of_laps_;
    std::vector<Use> uses_;
    StepPhase phase_ = StepPhase::forward;
    size_t before_optimizer_ = 0;
    const std::unique_ptr<NaiveAttention> naive_;
    const int64_t context_;
    std::map<const RowStatistics*, step::Owned<float>> weights_; // of each layer
    step::Owned<float> score_gradients_;
    size_t score_gradient_floats_ = 0;
};

} // namespace hw4::bench
