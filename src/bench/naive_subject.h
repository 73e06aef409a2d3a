// The naive form as the subject of a cell, on a workbench's counted memory.
#pragma once

#include <utility>

#include "src/bench/naive.h"
#include "src/bench/workbench.h"

namespace hw4::bench {

// Machine: as in kernel_subject.h. Every operand is a separate tensor, [batch][head][row][column],
// with contiguous heads over all batches, so that one call multiplies all of them.
template <class Machine>
class NaiveSubject : public Subject {
public:
    NaiveSubject(Pass pass, const CaseData& data, NaiveAttention& naive, Machine machine, MemoryCount& memory)
        : pass_(pass), problem_(data.problem), element_(problem_.element), naive_(naive), machine_(std::move(machine)) {
        kernel = "naive";
        forward_.problem = problem_.of_operation(kForward);
        for (size_t i = 0; i < problem_.operation->inputs.size(); ++i) {
            in_[i] = Memory(memory, tensor_bytes(), problem_.operation->inputs[i].name);
            each_batch(in_[i], [&](int64_t batch, void* to) {
                machine_.put(&data.values[place_of(batch, problem_.batch_input_floats(), i)], batch_values(), element_,
                             to);
            });
            forward_.in[i] = tensor(in_[i]);
        }
        backward_ = forward_;
        backward_.problem = problem_;
        o_ = Memory(memory, tensor_bytes(), purpose::kO);
        forward_.out[0] = tensor(o_);
        weights_ = Memory(memory, naive_scores(problem_) * bytes_of(element_), purpose::kScores);
        if (pass == Pass::forward) return;
        before_backward_bytes = memory.in_use();
        gradients_ = Memory(memory, naive_scores(problem_) * bytes_of(element_), purpose::kScoreGradients);
        for (size_t i = 0; i < kBackward.outputs.size(); ++i) {
            out_[i] = Memory(memory, tensor_bytes(), kBackward.outputs[i].name);
            backward_.out[i] = tensor(out_[i]);
        }
        if (pass == Pass::backward) compute(forward_);
    }

    void run() override {
        if (pass_ != Pass::backward) compute(forward_);
        if (pass_ != Pass::forward) compute(backward_);
    }

    UntouchedVector<float> output() override {
        UntouchedVector<float> values(problem_.floats_in(problem_.output_rows()));
        for (size_t i = 0; i < problem_.operation->outputs.size(); ++i)
            each_batch(pass_ == Pass::forward ? o_ : out_[i], [&](int64_t batch, void* from) {
                machine_.take(from, element_, &values[place_of(batch, problem_.batch_output_floats(), i)],
                              batch_values());
            });
        return values;
    }

private:
    using Memory = typename Machine::Memory;

    // Numbers in a batch of an operand; all have as many rows.
    size_t batch_values() const { return problem_.floats_in(problem_.heads * problem_.queries); }
    size_t tensor_bytes() const { return static_cast<size_t>(problem_.batches) * batch_values() * bytes_of(element_); }
    // Where an operand begins in a file's numbers.
    size_t place_of(int64_t batch, size_t batch_floats, size_t operand) const {
        return static_cast<size_t>(batch) * batch_floats + operand * batch_values();
    }
    Tensor tensor(const Memory& memory) const {
        return {memory.get(), element_, static_cast<int64_t>(batch_values()), problem_.queries * problem_.dim,
                problem_.dim};
    }
    template <class Copy>
    void each_batch(const Memory& memory, const Copy& copy) const {
        for (int64_t batch = 0; batch < problem_.batches; ++batch) copy(batch, tensor(memory).at(batch, 0));
    }

    void compute(const step::Attention& of) const {
        naive_.compute(of, weights_.get(), gradients_.get(), machine_.stream());
    }

    Pass pass_;
    Problem problem_;
    Element element_;
    NaiveAttention& naive_;
    Machine machine_;
    step::Attention forward_;
    step::Attention backward_;
    Memory in_[kMostInputs];
    Memory o_;
    Memory weights_;
    Memory gradients_;
    Memory out_[kMostOutputs];
};

} // namespace hw4::bench
