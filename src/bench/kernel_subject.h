// A contract's kernels as the subject of a cell.
#pragma once

#include "src/bench/workbench.h"
#include "src/contracts/contract.h"
#include "src/problem/tensor.h"

namespace hw4::bench {

// A Machine has counted memory, copies numbers to and from it, chooses a kernel, and makes and runs its launch. Rows
// are dim apart, as in a tensor.
template <class Machine>
class KernelSubject : public Subject {
public:
    KernelSubject(const Cell& cell, Pass pass, const CaseData& data, const Contract& contract, Machine machine,
                  MemoryCount& memory)
        : pass_(pass), problem_(data.problem), machine_(std::move(machine)) {
        Half& timed = pass == Pass::forward ? forward_ : backward_;
        timed.kernel = &machine_.kernel_for(cell.kernel, problem_, contract);
        kernel = timed.kernel->name;
        revision = contract.revision_of(*problem_.operation);
        in_ = Memory(memory, problem_.stored_input_bytes(), purpose::kInputs);
        machine_.put(data.values.data(), data.values.size(), problem_.element, in_.get());
        if (pass != Pass::forward) prepare_forward(contract, memory);
        prepare(timed, problem_, pass == Pass::forward ? purpose::kO : purpose::kGradients, memory);
        scratch_bytes = timed.scratch.bytes;
        backward_.launch.forward_out = forward_.launch.out[0];
        backward_.launch.statistics = forward_.launch.statistics;
        if (pass == Pass::backward) run(forward_);
    }

    void run() override {
        if (pass_ != Pass::backward) run(forward_);
        if (pass_ != Pass::forward) run(backward_);
    }

    UntouchedVector<float> output() override {
        UntouchedVector<float> values(problem_.floats_in(problem_.output_rows()));
        machine_.take((pass_ == Pass::forward ? forward_ : backward_).out.get(), problem_.element, values.data(),
                      values.size());
        return values;
    }

private:
    using Memory = typename Machine::Memory;

    // A launch with its memory, except for the inputs.
    struct Half {
        const typename Machine::Kernel* kernel = nullptr;
        Memory out;
        typename Machine::Scratch scratch;
        typename Machine::Launch launch;
    };

    void prepare(Half& half, const Problem& problem, const char* purpose_of_out, MemoryCount& memory) {
        half.out = Memory(memory, problem.stored_output_bytes(), purpose_of_out);
        if (&half == &forward_ && pass_ != Pass::forward)
            statistics_ = Memory(memory, static_cast<size_t>(problem.output_rows()) * sizeof(RowStatistics),
                                 purpose::kRowStatistics);
        const char* const of_scratch =
            problem.operation == &kForward ? purpose::kForwardScratch : purpose::kBackwardScratch;
        half.scratch = machine_.scratch_for(*half.kernel, problem, of_scratch, memory);
        half.launch = machine_.launch_of(problem, in_, half.out, half.scratch);
    }

    // Forward on the same operands, dO among them; backward needs O and the statistics of its rows.
    void prepare_forward(const Contract& contract, MemoryCount& memory) {
        const Problem forward = problem_.of_operation(kForward);
        forward_.kernel = &machine_.kernel_for("", forward, contract);
        prepare(forward_, forward, purpose::kO, memory);
        for (size_t i = 0; i < kForward.inputs.size(); ++i)
            forward_.launch.in[i] =
                tensor_at(problem_, problem_.operation->inputs, i, in_.get(), static_cast<size_t>(problem_.dim));
        forward_.launch.statistics = static_cast<RowStatistics*>(statistics_.get());
        before_backward_bytes = memory.in_use();
    }

    void run(const Half& half) const { machine_.run(*half.kernel, half.launch); }

    Pass pass_;
    Problem problem_;
    Machine machine_;
    Memory in_;
    Memory statistics_; // for backward
    Half forward_;
    Half backward_;
};

} // namespace hw4::bench
