// Between a launch and the kernels: which kernel takes a problem, what it needs for the problem, and launches with
// tensors of any element.
#include <algorithm>

#include "src/base/error.h"
#include "src/gpu/kernels.h"
#include "src/problem/words.h"

namespace hw4::gpu {
namespace {

// A launch of a kernel that takes other elements, or rows of more columns, than the tensors have: the converted tensors
// are at the beginning of the scratch memory, one after the other, and the kernel's own scratch memory follows.
class Conversion {
public:
    Conversion(const Kernel& kernel, const Problem& problem)
        : kernel_(kernel), problem_(problem), element_(problem.element), columns_(problem.dim) {
        const List<Element>& elements = kernel.needs.elements;
        if (!elements.has(problem.element)) problem_.element = elements[0];
        columns_ = rounded_up(problem.dim, kernel.needs.column_step(problem_.element));
        is_needed_ = problem_.element != problem.element || columns_ != problem.dim || problem.unpadded;
        problem_.unpadded = false;
    }

    bool is_needed() const { return is_needed_; }
    // The problem that the kernel gets.
    const Problem& problem() const { return problem_; }

    size_t bytes() const {
        size_t sum = 0;
        for (const List<Operand>* list : {&problem_.operation->inputs, &problem_.operation->outputs})
            for (const Operand& operand : *list) sum += bytes_of_tensor(operand, problem_.head_rows(operand));
        if (is_backward() && !loses_output(kernel_, element_))
            sum += bytes_of_tensor(kForward.outputs[0], problem_.queries);
        return sum;
    }

    void launch(const Launch& asked, cudaStream_t stream) const {
        Launch inner = asked;
        inner.problem = problem_;
        auto* at = static_cast<unsigned char*>(asked.scratch);
        // The tensor's place in scratch memory, and the conversion of its rows for convert_rows().
        const auto place = [&](const Operand& operand, const Tensor& tensor, Tensor& converted) {
            const bool of_queries = operand.rows == Rows::of_queries;
            const int64_t rows = of_queries ? asked.queries() : problem_.head_rows(operand);
            converted = packed(operand, rows, at);
            at += bytes_of_tensor(operand, rows);
            const int64_t first = of_queries ? asked.first_query : 0;
            const RowsOfHeads list = {
                tensor.from_row(first),     converted, problem_.batches, problem_.heads_of(operand), rows,
                columns_in(asked, operand), columns_};
            converted = converted.from_row(-first); // the kernel counts rows from the first query of all
            return list;
        };
        if (asked.forward_out.data != nullptr && loses_output(kernel_, asked.problem.element))
            throw Error(ExitCode::usage, "kernel " + std::string(kernel_.name) + ": O was rounded to " +
                                             name_of(asked.problem.element) +
                                             "; without O the launch recomputes it as float32");
        const Operation& operation = *problem_.operation;
        RowsOfHeads in[kMostConverted];
        int count = 0;
        for (size_t i = 0; i < operation.inputs.size(); ++i)
            in[count++] = place(operation.inputs[i], asked.in[i], inner.in[i]);
        if (asked.forward_out.data != nullptr)
            in[count++] = place(kForward.outputs[0], asked.forward_out, inner.forward_out);
        RowsOfHeads out[kMostConverted];
        for (size_t i = 0; i < operation.outputs.size(); ++i) {
            out[i] = place(operation.outputs[i], asked.out[i], inner.out[i]);
            std::swap(out[i].from, out[i].to);
            out[i].to_columns = out[i].columns;
        }
        const auto taken = static_cast<size_t>(at - static_cast<unsigned char*>(asked.scratch));
        if (asked.scratch_bytes != 0 && asked.scratch_bytes < taken)
            throw Error(ExitCode::usage, "kernel " + std::string(kernel_.name) + ": needs more than " +
                                             std::to_string(taken) + " bytes of scratch memory, got " +
                                             std::to_string(asked.scratch_bytes));
        inner.scratch = at;
        inner.scratch_bytes = asked.scratch_bytes == 0 ? 0 : asked.scratch_bytes - taken;
        convert_rows(in, count, stream);
        kernel_.run(inner, stream);
        convert_rows(out, static_cast<int>(operation.outputs.size()), stream);
    }

private:
    static constexpr size_t kAlignment = 256; // of a tensor in scratch memory

    static int64_t rounded_up(int64_t count, int64_t step) { return (count + step - 1) / step * step; }
    int64_t columns_in(const Launch& asked, const Operand& operand) const {
        return asked.problem.unpadded ? problem_.columns_of(operand) : problem_.dim;
    }
    bool is_backward() const { return &whole_of(*problem_.operation) == &kBackward; }

    Tensor packed(const Operand& operand, int64_t rows, void* at) const {
        const int64_t head = rows * columns_;
        return {at, problem_.element, problem_.heads_of(operand) * head, head, columns_};
    }
    size_t bytes_of_tensor(const Operand& operand, int64_t rows) const {
        const auto elements = static_cast<size_t>(problem_.batches * packed(operand, rows, nullptr).batch);
        return (elements * bytes_of(problem_.element) + kAlignment - 1) / kAlignment * kAlignment;
    }

    const Kernel& kernel_;
    Problem problem_;
    Element element_; // of the launch's tensors
    int64_t columns_;
    bool is_needed_;
};

// Throws unless every tensor has the launch's element, and rows that begin at multiples of `elements`.
void require_tensors(const Kernel& kernel, const Launch& launch, int64_t elements) {
    const size_t bytes = static_cast<size_t>(elements) * bytes_of(launch.problem.element);
    const auto require = [&](const Operand& operand, const Tensor& tensor) {
        if (tensor.element != launch.problem.element)
            throw Error(ExitCode::usage, "kernel " + std::string(kernel.name) + ": " + operand.name + " is of " +
                                             name_of(tensor.element) + ", the launch of " +
                                             name_of(launch.problem.element));
        if (!tensor.is_aligned(bytes))
            throw Error(ExitCode::usage, "kernel " + std::string(kernel.name) + ": rows of " + operand.name +
                                             " have to begin at multiples of " + std::to_string(bytes) +
                                             " bytes: pointer and strides do not allow it");
    };
    const Operation& operation = *launch.problem.operation;
    for (size_t i = 0; i < operation.inputs.size(); ++i) require(operation.inputs[i], launch.in[i]);
    for (size_t i = 0; i < operation.outputs.size(); ++i) require(operation.outputs[i], launch.out[i]);
    if (launch.forward_out.data == nullptr) return;
    require(kForward.outputs[0], launch.forward_out);
    if (launch.statistics == nullptr)
        throw Error(ExitCode::usage, "kernel " + std::string(kernel.name) + ": O is given without its statistics");
}

// "7.5"
std::string capability(int arch) { return std::to_string(arch / 10) + "." + std::to_string(arch % 10); }

// What the kernel needs but the problem or the GPU lacks, for any plan; for a sentence that begins with the kernel.
// Empty: nothing.
std::string lacking(const Kernel& kernel, const Problem& problem, const Device& device) {
    const Needs& needs = kernel.needs;
    const Problem whole = problem.of_operation(whole_of(*problem.operation));
    const std::string missing = what_it_lacks(*kernel.does, needs.masks, whole);
    if (!missing.empty()) return missing;
    if (problem.operation != kernel.does && !kernel.does_parts) return "gives all gradients of a head of keys or none";
    if (problem.by_pages && !needs.pages) return "takes keys and values that are not in pages";
    if (problem.by_pages && problem.unpadded) return "takes pages of V with as many columns as K";
    if (problem.by_pages && Conversion(kernel, problem).is_needed())
        return "takes pages of rows of a multiple of " + std::to_string(needs.row_bytes) + " bytes";
    if (problem.by_lengths && !needs.lengths) return "takes batches of one length";
    if (problem.window > 0 && !needs.windows) return "takes no window";
    for (const Operand& operand : problem.operation->inputs)
        if (problem.rows_of(operand) > kMostBatchRows)
            return "takes up to " + std::to_string(kMostBatchRows) + " rows of " + operand.name +
                   " in a batch, this case has " + std::to_string(problem.rows_of(operand));
    if (problem.dim > needs.most_dim)
        return "takes d up to " + std::to_string(needs.most_dim) + ", this case has " + std::to_string(problem.dim);
    if (device.arch < needs.arch)
        return "needs compute capability " + capability(needs.arch) + ", this GPU has " + capability(device.arch);
    if (device.arch > needs.last_arch)
        return "is for compute capability " + capability(needs.last_arch) + " and no later one, this GPU has " +
               capability(device.arch);
    if (!needs.has_own_code && device.code_arch < needs.arch)
        return "needs code for compute capability " + capability(needs.arch) +
               ", what this build runs on this GPU is for " + capability(device.code_arch) +
               "; make ARCHS=" + std::to_string(device.arch) + " makes one with it";
    return "";
}

Plan planned(const Kernel& kernel, const Problem& problem, const Device& device) {
    Plan plan;
    plan.why_not = lacking(kernel, problem, device);
    if (!plan.why_not.empty()) return plan;
    const Conversion conversion(kernel, problem);
    plan = kernel.plan(conversion.problem(), device);
    if (conversion.is_needed()) {
        const size_t bytes = conversion.bytes();
        plan.scratch_bytes += bytes;
        if (plan.most_scratch > 0) plan.most_scratch += bytes;
    }
    if (plan.why_not.empty() && device.shared_bytes < plan.shared_bytes)
        plan.why_not = "needs " + std::to_string(plan.shared_bytes) + " bytes of shared memory a block, this GPU has " +
                       std::to_string(device.shared_bytes);
    return plan;
}

} // namespace

std::vector<Kernel> kernels_of(const Contract& contract, const Operation& operation) {
    std::vector<Kernel> list;
    for (const Kernel& kernel : kernels())
        if (kernel.under == &contract && kernel.does == &operation) list.push_back(kernel);
    return list;
}

const Kernel* find_kernel(const std::string& name, const std::vector<Kernel>& table) {
    for (const Kernel& kernel : table)
        if (name == kernel.name) return &kernel;
    return nullptr;
}

Plan plan_of(const Kernel& kernel, const Problem& problem, const Device& device) {
    Plan plan = planned(kernel, problem, device);
    if (!plan.why_not.empty()) plan.why_not = "kernel " + std::string(kernel.name) + " " + plan.why_not;
    return plan;
}

const Kernel* choose_kernel(const Problem& problem, const Device& device, const Contract& contract,
                            const std::vector<Kernel>& table) {
    const Kernel* plainest = nullptr; // the first kernel that can take the problem
    for (auto kernel = table.rbegin(); kernel != table.rend(); ++kernel) {
        if (kernel->under != &contract || kernel->does != &whole_of(*problem.operation)) continue;
        const Plan plan = planned(*kernel, problem, device);
        if (!plan.why_not.empty()) continue;
        if (plan.pays) return &*kernel;
        plainest = &*kernel;
    }
    return plainest;
}

void Kernel::launch(const Launch& launch, cudaStream_t stream) const {
    const Conversion conversion(*this, launch.problem);
    if (conversion.is_needed()) {
        require_tensors(*this, launch, 1);
        return conversion.launch(launch, stream);
    }
    const int64_t columns = needs.column_step(launch.problem.element);
    require_tensors(*this, launch, std::max<int64_t>(columns, launch.problem.dim % 4 == 0 ? 4 : 1));
    run(launch, stream);
}

} // namespace hw4::gpu
