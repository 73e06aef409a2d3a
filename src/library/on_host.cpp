// The calls for the host: runs the CPU engine's kernels on the caller's pointers.
#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

#include "src/base/parallel.h"
#include "src/contracts/fma_clones.h"
#include "src/cpu/aligned_memory.h"
#include "src/cpu/kernels.h"
#include "src/library/call.h"

namespace hw4::library::on_host {
namespace {

int threads_of(const Call& call) { return call.threads > 0 ? call.threads : available_processors(); }

const cpu::Kernel& kernel_of(const Call& call) {
    return cpu::choose_kernel(call.kernel == nullptr ? "" : call.kernel, call.problem, *call.contract);
}

// The workspace contains statistics for lse, then repacked tensors, then the kernel's scratch memory.
class Workspace {
public:
    explicit Workspace(void* memory) : at_(static_cast<unsigned char*>(memory)) {}

    void* take(size_t bytes) {
        const size_t whole = (bytes + cpu::kCacheLine - 1) / cpu::kCacheLine * cpu::kCacheLine;
        void* const here = at_ == nullptr ? nullptr : at_ + taken_;
        taken_ += whole;
        return here;
    }
    size_t taken() const { return taken_; }

private:
    unsigned char* at_; // null: only count
    size_t taken_ = 0;
};

// A tensor's rows in every head of every batch in the kernels' form: rows dim apart, with zeros behind the existing
// columns.
class Packed {
public:
    Packed(const Call& call, const Operand& operand, const Tensor& tensor)
        : call_(call), problem_(call.problem), operand_(operand), tensor_(tensor),
          columns_(problem_.columns_of(operand)) {}

    bool is_needed() const {
        return columns_ != problem_.dim || tensor_.row != problem_.dim ||
               (problem_.by_pages && operand_.rows == Rows::of_keys);
    }
    Tensor place(Workspace& workspace) {
        if (!is_needed()) return tensor_;
        const int64_t head = problem_.head_rows(operand_) * problem_.dim;
        const int64_t batch = problem_.heads_of(operand_) * head;
        const size_t bytes = static_cast<size_t>(problem_.batches * batch) * bytes_of(tensor_.element);
        packed_ = {workspace.take(bytes), tensor_.element, batch, head, problem_.dim};
        return packed_;
    }
    void copy_in() const { copy(true); }
    void copy_out() const { copy(false); }

private:
    void copy(bool in) const {
        if (!is_needed()) return;
        const size_t bytes = static_cast<size_t>(columns_) * bytes_of(tensor_.element);
        const size_t padding = problem_.stored_row_bytes() - bytes;
        const int64_t heads = problem_.heads_of(operand_);
        const auto copy_head = [&](size_t index, size_t) {
            const int64_t batch = static_cast<int64_t>(index) / heads;
            const int64_t head = static_cast<int64_t>(index) % heads;
            const int64_t rows = operand_.rows == Rows::of_keys ? call_.keys_of(batch) : problem_.head_rows(operand_);
            for (int64_t row = 0; row < rows; ++row) {
                auto* const packed = static_cast<unsigned char*>(packed_.at(batch, head, row));
                void* const given = call_.row_of(operand_, tensor_, batch, head, row);
                std::memcpy(in ? packed : given, in ? given : packed, bytes);
                if (in) std::memset(packed + bytes, 0, padding);
            }
        };
        in_pieces(static_cast<size_t>(problem_.batches * heads), 1, copy_head, threads_of(call_));
    }

    const Call& call_;
    const Problem& problem_;
    const Operand& operand_;
    Tensor tensor_;
    Tensor packed_;
    int64_t columns_;
};

struct Prepared {
    cpu::Launch launch;
    std::vector<Packed> inputs;
    std::vector<Packed> outputs;
    size_t bytes = 0;
};

Prepared prepared(const Call& call, const cpu::Kernel& kernel, void* memory) {
    Prepared all;
    cpu::Launch& launch = all.launch;
    const Operation& operation = *call.problem.operation;
    Workspace workspace(memory);
    launch.problem = call.problem;
    launch.problem.unpadded = false;
    launch.threads = threads_of(call);
    launch.lengths = call.lengths;
    launch.statistics = call.statistics;
    if (call.lse != nullptr && call.statistics == nullptr)
        launch.statistics = static_cast<RowStatistics*>(workspace.take(call.query_rows() * sizeof(RowStatistics)));
    for (size_t i = 0; i < operation.inputs.size(); ++i)
        launch.in[i] = all.inputs.emplace_back(call, operation.inputs[i], call.in[i]).place(workspace);
    if (call.forward_out.data != nullptr)
        launch.forward_out = all.inputs.emplace_back(call, kForward.outputs[0], call.forward_out).place(workspace);
    for (size_t i = 0; i < operation.outputs.size(); ++i)
        launch.out[i] = all.outputs.emplace_back(call, operation.outputs[i], call.out[i]).place(workspace);
    launch.scratch = workspace.take(cpu::plan_of(kernel, call.problem, launch.threads).scratch_bytes);
    launch.done = [](int64_t) {};
    all.bytes = workspace.taken();
    return all;
}

// The invalid value of one batch, or none. Gathers some rows at a time as floats, in the file's order.
std::exception_ptr flaw_of(const Call& call, int64_t batch) {
    constexpr int64_t kRows = 256;
    const Problem problem = call.problem.of_keys(call.keys_of(batch));
    const auto pitch = static_cast<size_t>(problem.dim);
    try {
        DomainCheck domain(kInputs, problem, call.contract->domain);
        int64_t row = batch * problem.batch_input_rows();
        for (size_t i = 0; i < problem.operation->inputs.size(); ++i) {
            const Operand& operand = problem.operation->inputs[i];
            const Tensor& tensor = call.in[i];
            const auto columns = static_cast<size_t>(problem.columns_of(operand));
            std::vector<float> values(static_cast<size_t>(kRows) * pitch); // zeros behind the columns
            for (int64_t head = 0; head < problem.heads_of(operand); ++head)
                for (int64_t first = 0; first < problem.head_rows(operand); first += kRows) {
                    const int64_t count = std::min(kRows, problem.head_rows(operand) - first);
                    for (int64_t r = 0; r < count; ++r)
                        widen(tensor.element, call.row_of(operand, tensor, batch, head, first + r), columns,
                              values.data() + static_cast<size_t>(r) * pitch);
                    domain.check(row, count, values.data());
                    row += count;
                }
        }
    } catch (...) {
        return std::current_exception();
    }
    return nullptr;
}

// It stays out of append(), so that the processor can select the copy with FMA instructions.
HW4_FMA_CLONES void append_rows(const Append& all, int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row)
        if (all.parts[0].from.element == Element::float32)
            append_row<float>(all, row, 0, 1);
        else
            append_row<uint16_t>(all, row, 0, 1);
}

} // namespace

Needs plan(const Call& call) {
    const cpu::Kernel& kernel = kernel_of(call);
    const size_t bytes = prepared(call, kernel, nullptr).bytes;
    return {bytes, bytes, 0, kernel.name.c_str()};
}

void run(const Call& call) {
    const cpu::Kernel& kernel = kernel_of(call);
    const size_t bytes = prepared(call, kernel, nullptr).bytes;
    cpu::AlignedMemory own;
    if (call.workspace == nullptr)
        own = cpu::allocate_bytes(bytes);
    else
        require_workspace(call, bytes);
    const Prepared all = prepared(call, kernel, call.workspace == nullptr ? own.get() : call.workspace);
    for (const Packed& input : all.inputs) input.copy_in();
    kernel.launch(all.launch);
    for (const Packed& output : all.outputs) output.copy_out();
    if (call.lse != nullptr)
        logsumexps(*call.contract, call.problem, all.launch.statistics, static_cast<int64_t>(call.query_rows()),
                   call.lse);
}

void check(const Call& call) {
    std::vector<std::exception_ptr> flaws(static_cast<size_t>(call.problem.batches));
    in_pieces(
        flaws.size(), 1, [&](size_t batch, size_t) { flaws[batch] = flaw_of(call, static_cast<int64_t>(batch)); },
        threads_of(call));
    for (const std::exception_ptr& flaw : flaws)
        if (flaw) std::rethrow_exception(flaw);
}

void append(const Append& all) {
    constexpr size_t kRows = 256; // per thread at a time
    in_pieces(static_cast<size_t>(all.rows()), kRows, [&](size_t first, size_t count) {
        append_rows(all, static_cast<int64_t>(first), static_cast<int64_t>(count));
    });
}

} // namespace hw4::library::on_host
