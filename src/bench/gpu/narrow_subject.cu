// Rows of operands are a multiple of 8 numbers apart.
#include "src/bench/gpu/narrow_subject.h"

#include "src/bench/gpu/subject_parts.h"

namespace hw4::bench::gpu_side {
namespace {

class NarrowSubject : public Subject {
public:
    NarrowSubject(const Cell& cell, Pass pass, const CaseData& data, const Contract& contract,
                  const gpu::Device& device, cudaStream_t stream, StagedCopies& copies, MemoryCount& memory)
        : pass_(pass), problem_(data.problem), element_(contract.element), device_(device), stream_(stream),
          copies_(copies), kernel_(kernel_for(cell.kernel, problem_, contract, device)),
          row_((problem_.dim + kPiece - 1) / kPiece * kPiece),
          in_(memory, bytes_of_rows(problem_.input_rows()), purpose::kInputs) {
        kernel = kernel_.name;
        revision = contract.revision_of(*problem_.operation);
        if (row_ > problem_.dim) clear_beyond_columns();
        copies_.put(data.values.data(), rows_in(in_, problem_.input_rows()));
        const Problem forward = problem_.of_operation(kForward);
        forward_kernel_ = pass == Pass::forward ? &kernel_ : &kernel_for("", forward, contract, device);
        o_ = Memory(memory, bytes_of_rows(forward.output_rows()), purpose::kO);
        counter_ = Memory(memory, sizeof(unsigned), purpose::kForwardScratch);
        HW4_CUDA(cudaMemsetAsync(counter_.get(), 0, sizeof(unsigned), stream_));
        gpu::half_forward::Args& args = args_.forward;
        args.type = contract.element == Element::bf16 ? gpu::half_forward::NumberType::bf16
                                                      : gpu::half_forward::NumberType::fp16;
        args.batches = problem_.batches;
        args.heads = problem_.heads;
        args.kv_heads = problem_.kv_heads;
        args.queries = problem_.queries;
        args.keys = problem_.keys;
        args.dim = row_;
        args.root_of = problem_.dim;
        args.sight = sight_of(problem_.mask, problem_.queries, problem_.keys);
        args.q = operand(problem_, problem_.operation->inputs, 0, in_);
        args.k = operand(problem_, problem_.operation->inputs, 1, in_);
        args.v = operand(problem_, problem_.operation->inputs, 2, in_);
        args.out = operand(forward, kForward.outputs, 0, o_);
        args.counter = static_cast<unsigned*>(counter_.get());
        if (pass != Pass::forward) prepare_backward(memory);
    }

    void run() override {
        if (pass_ != Pass::backward) forward_kernel_->launch_narrow(args_.forward, device_, stream_);
        if (pass_ != Pass::forward) kernel_.launch_narrow_backward(args_, device_, stream_);
    }

    UntouchedVector<float> output() override {
        UntouchedVector<float> values(problem_.floats_in(problem_.output_rows()));
        HW4_CUDA(cudaStreamSynchronize(stream_));
        copies_.get(rows_in(pass_ == Pass::forward ? o_ : gradients_, problem_.output_rows()), values.data());
        return values;
    }

private:
    static constexpr int64_t kPiece = 8; // columns: rows begin at boundaries of 16 bytes

    size_t stored_row() const { return 2 * static_cast<size_t>(row_); }
    size_t bytes_of_rows(int64_t rows) const { return static_cast<size_t>(rows) * stored_row(); }

    CardRows rows_in(const Memory& memory, int64_t rows) const {
        return {element_, memory.get(), static_cast<size_t>(rows), static_cast<size_t>(problem_.dim), stored_row()};
    }

    // Done when it returns: the operands come by another stream.
    void clear_beyond_columns() const {
        HW4_CUDA(cudaMemsetAsync(in_.get(), 0, bytes_of_rows(problem_.input_rows()), stream_));
        HW4_CUDA(cudaStreamSynchronize(stream_));
    }

    // O and the statistics of its rows stay for backward.
    void prepare_backward(MemoryCount& memory) {
        statistics_ = Memory(memory, static_cast<size_t>(problem_.units() * problem_.queries) * sizeof(RowStatistics),
                             purpose::kRowStatistics);
        args_.forward.statistics = static_cast<RowStatistics*>(statistics_.get());
        args_.forward.statistics_unit = problem_.queries;
        before_backward_bytes = memory.in_use();
        gradients_ = Memory(memory, bytes_of_rows(problem_.output_rows()), purpose::kGradients);
        args_.dout = operand(problem_, kBackward.inputs, 3, in_);
        args_.dq = operand(problem_, kBackward.outputs, 0, gradients_);
        args_.dk = operand(problem_, kBackward.outputs, 1, gradients_);
        args_.dv = operand(problem_, kBackward.outputs, 2, gradients_);
        scratch_ =
            Memory(memory, static_cast<size_t>(gpu::half_backward::Scratch(args_).end), purpose::kBackwardScratch);
        args_.scratch = scratch_.get();
        if (pass_ == Pass::backward) forward_kernel_->launch_narrow(args_.forward, device_, stream_);
    }

    gpu::half_forward::Operand operand(const Problem& problem, const List<Operand>& list, size_t index,
                                       const Memory& memory) const {
        const Matrix<uint16_t> matrix =
            operand_at(problem, list, index, static_cast<uint16_t*>(memory.get()), static_cast<size_t>(row_));
        return {matrix.at, static_cast<int64_t>(matrix.row), static_cast<int64_t>(matrix.head),
                static_cast<int64_t>(matrix.batch)};
    }

    Pass pass_;
    Problem problem_;
    Element element_;
    gpu::Device device_;
    cudaStream_t stream_;
    StagedCopies& copies_;
    const gpu::Kernel& kernel_;
    const gpu::Kernel* forward_kernel_ = nullptr;
    int64_t row_; // columns from one to the next
    Memory in_;
    Memory o_;
    Memory counter_;
    Memory statistics_; // of backward, as what follows
    Memory gradients_;
    Memory scratch_;
    gpu::half_backward::Args args_;
};

} // namespace

std::unique_ptr<Subject> narrow_subject(const Cell& cell, Pass pass, const CaseData& data, const Contract& contract,
                                        const gpu::Device& device, cudaStream_t stream, StagedCopies& copies,
                                        MemoryCount& memory) {
    return std::make_unique<NarrowSubject>(cell, pass, data, contract, device, stream, copies, memory);
}

} // namespace hw4::bench::gpu_side
