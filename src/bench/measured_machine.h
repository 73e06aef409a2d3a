// A machine of the training step that measures another: seconds by operation and by phase, and the memory of the step,
// taken and in use. Seconds are taken between marks of the measured machine, which computes without stopping. It may
// compute attention in the naive form instead, and time each operation alone beside a yardstick.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/bench/memory_in_use.h"
#include "src/bench/naive.h"
#include "src/bench/operations.h"
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
        compared_steps_ += is_compared() ? 1 : 0;
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
            if (laps_[i].samples != nullptr) laps_[i].samples->push_back(seconds_of_laps_[i] / laps_[i].calls);
            if (!each_operation_) continue;
            Operations& operations = seconds.of_operation[phase][static_cast<size_t>(laps_[i].operation)];
            operations.seconds += seconds_of_laps_[i];
            ++operations.calls;
        }
        return seconds;
    }

    // From now on each operation of a step is timed alone too, a product in turns with the yardstick's: last of all it
    // runs itself, so no byte of the step changes.
    void compare(std::unique_ptr<Yardstick> yardstick) { yardstick_ = std::move(yardstick); }
    // Times copies too, which read and write as many bytes as an operation; `most` floats at most, since longer ones
    // have the same rate.
    std::vector<MeasuredOperation> compared(float* to, const float* from, size_t most) {
        constexpr int kCopies = 12;
        begin_step(false);
        size_t at = 0; // goes on through the memory, so that caches contain none of it
        for (int i = 0; i < kCopies; ++i)
            for (auto& [sizes, of] : compared_) {
                if (of.is_product()) continue;
                const size_t least = step::kSegment;
                const size_t count = std::clamp(static_cast<size_t>(of.bytes / 8) / least * least, least, most);
                if (at + count > most) at = 0;
                lap({}, true, &of.beside, static_cast<double>(count) * 8 / of.bytes);
                yardstick_->copy(to + at, from + at, count);
                at += count;
                lap({}, false);
            }
        end_step();
        std::vector<MeasuredOperation> all;
        for (const auto& [sizes, of] : compared_) {
            all.push_back(of);
            all.back().calls /= compared_steps_;
        }
        return all;
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
    void clear(float* to, size_t count) override {
        timed("clear", StepOperation::sums, {out(to, count)}, [&] { machine_->clear(to, count); });
    }

    void embed(const step::Tokens& tokens, const float* table, float* x, int64_t width) override {
        phase_ = StepPhase::forward;
        const auto rows = static_cast<double>(tokens.rows() * width);
        timed("embed", StepOperation::embedding, {in(table, 1, rows), out(x, tokens.rows() * width)},
              [&] { machine_->embed(tokens, table, x, width); });
    }
    void embed_back(const step::Tokens& tokens, const float* dx, float* d_table, int64_t vocabulary,
                    int64_t width) override {
        timed("embed_back", StepOperation::embedding, {in(dx, tokens.rows() * width), out(d_table, vocabulary * width)},
              [&] { machine_->embed_back(tokens, dx, d_table, vocabulary, width); });
    }
    void multiply(const step::LinearProduct& of) override {
        constexpr const char* kNames[] = {"linear", "linear_back", "linear_weights"};
        timed(
            of.residual != nullptr ? "linear_residual" : kNames[static_cast<int>(of.kind)], StepOperation::products,
            {in(of.a, of.rows() * of.terms()), in(of.b, of.columns() * of.terms()),
             in(of.residual, of.rows() * of.columns()), out(of.out, of.rows() * of.columns())},
            [&] { machine_->multiply(of); }, of);
    }
    void norm(const float* x, const float* gain, float* y, float* factors, int64_t rows, int64_t width) override {
        timed("norm", StepOperation::norms,
              {in(x, rows * width), in(gain, width), out(y, rows * width), out(factors, rows)},
              [&] { machine_->norm(x, gain, y, factors, rows, width); });
    }
    void norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx, int64_t rows,
                   int64_t width) override {
        timed("norm_back", StepOperation::norms,
              {in(x, rows * width), in(gain, width), in(factors, rows), in(dy, rows * width), in(dx, rows * width, 2)},
              [&] { machine_->norm_back(x, gain, factors, dy, dx, rows, width); });
    }
    void norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                   int64_t context, int64_t width) override {
        const int64_t rows = sequences * context;
        timed("norm_gain", StepOperation::norms,
              {in(x, rows * width), in(factors, rows), in(dy, rows * width), out(d_gain, width)},
              [&] { machine_->norm_gain(x, factors, dy, d_gain, sequences, context, width); });
    }
    void rotate(float* qkv, const float* table, int64_t sequences, int64_t context, const step::Model& model,
                bool back) override {
        timed(back ? "rope_back" : "rope", StepOperation::rope,
              {in(qkv, 3 * sequences * context * model.width, 4.0 / 3), // both q and k are read and written
               in(table, context * model.head_width())},
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
        timed(back ? "attention_back" : "attention", StepOperation::attention,
              {tensors(of.in[0], 3), tensors(of.in[3], back ? 1 : 0), tensors(of.forward_out, back ? 1 : 0),
               back ? scores : written(scores), back ? statistics : written(statistics),
               out(gradients, rows * of.problem.keys), written(tensors(of.out[0], back ? 3 : 1))},
              [&] {
                  if (naive_ == nullptr) return machine_->attention(of);
                  naive_->compute(of, weights, gradients, machine_->stream());
              });
    }
    void swiglu(const float* gate_up, float* h, int64_t rows, int64_t hidden) override {
        timed("swiglu", StepOperation::swiglu, {in(gate_up, 2 * rows * hidden), out(h, rows * hidden)},
              [&] { machine_->swiglu(gate_up, h, rows, hidden); });
    }
    void swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows, int64_t hidden) override {
        timed("swiglu_back", StepOperation::swiglu,
              {in(gate_up, 2 * rows * hidden), in(dh, rows * hidden), out(d_gate_up, 2 * rows * hidden)},
              [&] { machine_->swiglu_back(gate_up, dh, d_gate_up, rows, hidden); });
    }
    std::vector<double> cross_entropy(float* logits, const step::Tokens& tokens, int64_t vocabulary,
                                      float share) override {
        std::vector<double> losses;
        const auto count = static_cast<size_t>(tokens.rows() * vocabulary);
        if (is_compared()) {
            const step::Owned<float> copy = floats(count);
            yardstick_->copy(copy.get(), logits, count);
            timed("cross_entropy", StepOperation::loss, {in(copy.get(), count, 2)},
                  [&] { yardstick_->cross_entropy(copy.get(), tokens.rows(), vocabulary, share); });
        }
        timed(nullptr, StepOperation::loss, {in(logits, count)},
              [&] { losses = machine_->cross_entropy(logits, tokens, vocabulary, share); });
        phase_ = StepPhase::backward;
        return losses;
    }
    void add(float* a, const float* b, size_t count) override {
        timed("add", StepOperation::sums, {in(a, count, 2), in(b, count)}, [&] { machine_->add(a, b, count); });
    }
    void squares(const float* x, size_t count, float* sums) override {
        phase_ = StepPhase::optimizer;
        before_optimizer_ = peak_bytes();
        if (is_compared())
            timed("squares", StepOperation::optimizer, {in(x, count)}, [&] { yardstick_->squares(x, count); });
        timed(nullptr, StepOperation::optimizer, {in(x, count)}, [&] { machine_->squares(x, count, sums); });
    }
    void adamw(float* p, const float* g, float* m, float* v, size_t count, const step::Adam& adam) override {
        timed("adamw", StepOperation::optimizer, {in(p, count, 2), in(g, count), in(m, count, 2), in(v, count, 2)},
              [&] { machine_->adamw(p, g, m, v, count, adam); });
    }
    void mark() override { machine_->mark(); }
    std::vector<double> laps() override { return machine_->laps(); }
    void* stream() override { return machine_->stream(); }

private:
    // Memory that an operation reads, or writes without reading it; null: none.
    template <class T, class Count>
    static Use in(const T* at, Count count, double passes = 1) {
        return {reinterpret_cast<uintptr_t>(at), static_cast<size_t>(count) * sizeof(T), false, 0, {}, {}, passes};
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

    bool is_compared() const { return each_operation_ && yardstick_ != nullptr; }
    void lap(StepOperation operation, bool is_measured, std::vector<double>* samples = nullptr, double calls = 1) {
        laps_.push_back({operation, phase_, is_measured, samples, calls});
        machine_->mark();
    }

    template <class Work>
    void compare_operation(const char* name, StepOperation operation, std::initializer_list<Use> uses, const Work& work,
                           const step::LinearProduct& product) {
        double bytes = 0;
        for (const Use& use : uses)
            if (use.at != 0) bytes += static_cast<double>(use.bytes) * use.passes;
        MeasuredOperation& of = compared_[{name, bytes, product.inputs, product.outputs}];
        if (of.calls == 0) of = {name, product, bytes};
        if (of.calls++ == 0 && of.is_product()) yardstick_->multiply(product); // cuBLAS loads its kernel
        const int runs = of.is_product() ? 4 : 1; // a sample: the marks' own time counts less
        const auto sample = [&](std::vector<double>& samples, const auto& run) {
            lap(operation, true, &samples, runs);
            for (int i = 0; i < runs; ++i) run();
        };
        sample(of.seconds, work);
        if (!of.is_product()) return;
        for (int i = 0; i < 2; ++i) sample(of.beside, [&] { yardstick_->multiply(product); });
        sample(of.seconds, work);
    }
    // `name`: of an operation to compare; null: none.
    template <class Work>
    void timed(const char* name, StepOperation operation, std::initializer_list<Use> uses, const Work& work,
               const step::LinearProduct& product = {}) {
        if (is_compared() && name != nullptr) {
            compare_operation(name, operation, uses, work, product);
        } else {
            if (each_operation_ || laps_.empty() || laps_.back().phase != phase_) lap(operation, true);
            work();
        }
        if (!each_operation_) return;
        for (Use use : uses) {
            use.lap = laps_.size() - 1;
            use.operation = operation;
            use.phase = phase_;
            if (use.at != 0 && use.bytes > 0) uses_.push_back(use);
        }
        lap(operation, false); // until the next operation the ranks may communicate
    }

    std::unique_ptr<step::Machine> machine_;
    MemoryCount memory_;
    std::map<uintptr_t, size_t> held_; // bytes of all allocations, by their addresses
    bool each_operation_ = false;
    struct Lap { // from one mark to the next
        StepOperation operation;
        StepPhase phase;
        bool is_measured;
        std::vector<double>* samples; // of as many calls as the lap has; null: none
        double calls;
    };
    std::vector<Lap> laps_;
    std::vector<double> seconds_of_laps_;
    std::vector<Use> uses_;
    StepPhase phase_ = StepPhase::forward;
    std::unique_ptr<Yardstick> yardstick_;
    std::map<std::tuple<std::string, double, int64_t, int64_t>, MeasuredOperation> compared_; // by name and sizes
    int64_t compared_steps_ = 0;
    size_t before_optimizer_ = 0;
    const std::unique_ptr<NaiveAttention> naive_;
    const int64_t context_;
    std::map<const RowStatistics*, step::Owned<float>> weights_; // of each layer
    step::Owned<float> score_gradients_;
    size_t score_gradient_floats_ = 0;
};

} // namespace hw4::bench
