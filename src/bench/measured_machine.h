// A machine of the training step that measures another: seconds by operation and by phase, and the memory of the step.
// Seconds are taken between marks of the measured machine, which computes without stopping.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "src/bench/memory_count.h"
#include "src/step/machine.h"

namespace hw4::bench {

enum class StepOperation { embedding, products, norms, rope, attention, swiglu, loss, sums, optimizer };
inline constexpr StepOperation kStepOperations[] = {
    StepOperation::embedding, StepOperation::products,  StepOperation::norms,
    StepOperation::rope,      StepOperation::attention, StepOperation::swiglu,
    StepOperation::loss,      StepOperation::sums,      StepOperation::optimizer};

constexpr const char* name_of(StepOperation operation) {
    constexpr const char* kNames[] = {"embedding", "products", "norms", "rope",     "attention",
                                      "swiglu",    "loss",     "sums",  "optimizer"};
    return kNames[static_cast<size_t>(operation)];
}

// A phase begins with its first operation: the embedding, the first product after the loss, the squares for the clip.
enum class StepPhase { forward, backward, optimizer };
inline constexpr StepPhase kStepPhases[] = {StepPhase::forward, StepPhase::backward, StepPhase::optimizer};

constexpr const char* name_of(StepPhase phase) {
    return phase == StepPhase::forward ? "forward" : phase == StepPhase::backward ? "backward" : "optimizer";
}

class MeasuredMachine : public step::Machine {
public:
    // The machine has `most` bytes. Allocating more throws OutOfMemory.
    MeasuredMachine(std::unique_ptr<step::Machine> machine, size_t most)
        : machine_(std::move(machine)), memory_(most) {}

    // The seconds of a step. A mark around each operation costs a GPU about one percent of its time; without these
    // marks only phases have seconds, each until the next one begins.
    struct Seconds {
        std::array<double, std::size(kStepOperations)> of_operation{};
        std::array<double, std::size(kStepPhases)> of_phase{};
    };
    void begin_step(bool each_operation) {
        each_operation_ = each_operation;
        machine_->laps(); // discards earlier laps
        laps_.clear();
    }
    // Waits until the step is complete.
    Seconds end_step() {
        machine_->mark();
        const std::vector<double> laps = machine_->laps();
        Seconds seconds;
        for (size_t i = 0; i < laps.size(); ++i) {
            if (!laps_[i].is_measured) continue;
            seconds.of_phase[static_cast<size_t>(laps_[i].phase)] += laps[i];
            if (each_operation_) seconds.of_operation[static_cast<size_t>(laps_[i].operation)] += laps[i];
        }
        return seconds;
    }

    size_t peak_bytes() const { return memory_.peak() + machine_->scratch_bytes(); }
    size_t peak_before_optimizer() const { return before_optimizer_; }

    step::Owned<float> floats(size_t count) override {
        return counted<float>(count, [&] { return machine_->floats(count); });
    }
    step::Owned<RowStatistics> statistics(size_t count) override {
        return counted<RowStatistics>(count, [&] { return machine_->statistics(count); });
    }
    size_t scratch_bytes() const override { return machine_->scratch_bytes(); }
    bool is_on_host() const override { return machine_->is_on_host(); }
    void put(float* to, const float* from, size_t count) override { machine_->put(to, from, count); }
    void get(float* to, const float* from, size_t count) override { machine_->get(to, from, count); }
    void fill(float* to, float value, size_t count) override {
        timed(StepOperation::sums, [&] { machine_->fill(to, value, count); });
    }

    void embed(const step::Tokens& tokens, const float* table, float* x, int64_t width) override {
        phase_ = StepPhase::forward;
        timed(StepOperation::embedding, [&] { machine_->embed(tokens, table, x, width); });
    }
    void embed_back(const step::Tokens& tokens, const float* dx, float* d_table, int64_t vocabulary,
                    int64_t width) override {
        timed(StepOperation::embedding, [&] { machine_->embed_back(tokens, dx, d_table, vocabulary, width); });
    }
    void linear(const float* x, const float* w, const float* residual, float* y, int64_t rows, int64_t inputs,
                int64_t outputs) override {
        timed(StepOperation::products, [&] { machine_->linear(x, w, residual, y, rows, inputs, outputs); });
    }
    void linear_back(const float* dy, const float* w, float* dx, int64_t rows, int64_t inputs,
                     int64_t outputs) override {
        timed(StepOperation::products, [&] { machine_->linear_back(dy, w, dx, rows, inputs, outputs); });
    }
    void linear_weights(const float* dy, const float* x, float* dw, int64_t sequences, int64_t context, int64_t inputs,
                        int64_t outputs) override {
        timed(StepOperation::products,
              [&] { machine_->linear_weights(dy, x, dw, sequences, context, inputs, outputs); });
    }
    void norm(const float* x, const float* gain, float* y, float* factors, int64_t rows, int64_t width) override {
        timed(StepOperation::norms, [&] { machine_->norm(x, gain, y, factors, rows, width); });
    }
    void norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx, int64_t rows,
                   int64_t width) override {
        timed(StepOperation::norms, [&] { machine_->norm_back(x, gain, factors, dy, dx, rows, width); });
    }
    void norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                   int64_t context, int64_t width) override {
        timed(StepOperation::norms, [&] { machine_->norm_gain(x, factors, dy, d_gain, sequences, context, width); });
    }
    void rotate(float* qkv, const float* table, int64_t sequences, int64_t context, const step::Model& model,
                bool back) override {
        timed(StepOperation::rope, [&] { machine_->rotate(qkv, table, sequences, context, model, back); });
    }
    void attention(const step::Attention& of) override {
        timed(StepOperation::attention, [&] { machine_->attention(of); });
    }
    void swiglu(const float* gate_up, float* h, int64_t rows, int64_t hidden) override {
        timed(StepOperation::swiglu, [&] { machine_->swiglu(gate_up, h, rows, hidden); });
    }
    void swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows, int64_t hidden) override {
        timed(StepOperation::swiglu, [&] { machine_->swiglu_back(gate_up, dh, d_gate_up, rows, hidden); });
    }
    std::vector<double> cross_entropy(float* logits, const step::Tokens& tokens, int64_t vocabulary,
                                      float share) override {
        std::vector<double> losses;
        timed(StepOperation::loss, [&] { losses = machine_->cross_entropy(logits, tokens, vocabulary, share); });
        phase_ = StepPhase::backward;
        return losses;
    }
    void add(float* a, const float* b, size_t count) override {
        timed(StepOperation::sums, [&] { machine_->add(a, b, count); });
    }
    void squares(const float* x, size_t count, float* sums) override {
        phase_ = StepPhase::optimizer;
        before_optimizer_ = peak_bytes();
        timed(StepOperation::optimizer, [&] { machine_->squares(x, count, sums); });
    }
    void adamw(float* p, const float* g, float* m, float* v, size_t count, const step::Adam& adam) override {
        timed(StepOperation::optimizer, [&] { machine_->adamw(p, g, m, v, count, adam); });
    }
    void mark() override { machine_->mark(); }
    std::vector<double> laps() override { return machine_->laps(); }

private:
    template <class T, class Take>
    step::Owned<T> counted(size_t count, const Take& take) {
        memory_.need(count * sizeof(T), "step");
        step::Owned<T> memory = take();
        const Allocation allocation = memory_.take(count * sizeof(T), "step");
        const auto free = memory.get_deleter();
        return {memory.release(), [this, free, allocation](T* at) {
                    free(at);
                    memory_.give_back(allocation);
                }};
    }

    template <class Work>
    void timed(StepOperation operation, const Work& work) {
        const auto mark = [&](bool is_measured) {
            laps_.push_back({operation, phase_, is_measured});
            machine_->mark();
        };
        if (each_operation_ || laps_.empty() || laps_.back().phase != phase_) mark(true);
        work();
        if (each_operation_) mark(false); // until the next operation the ranks may communicate
    }

    std::unique_ptr<step::Machine> machine_;
    MemoryCount memory_;
    bool each_operation_ = false;
    struct Lap { // from one mark to the next
        StepOperation operation;
        StepPhase phase;
        bool is_measured;
    };
    std::vector<Lap> laps_;
    StepPhase phase_ = StepPhase::forward;
    size_t before_optimizer_ = 0;
};

} // namespace hw4::bench
