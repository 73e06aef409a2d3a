#include "src/cpu/kernels.h"

#include <algorithm>
#include <atomic>

#include "src/base/error.h"
#include "src/cpu/aligned_memory.h"
#include "src/problem/words.h"
#include "src/run/engine.h"

namespace hw4::cpu {

namespace {

// A vector unit by what it computes f32 with; bf16 and fp16 take the same kernels, on rounded numbers.
struct FloatUnit {
    const char* name;
    const char* rows; // the idea of its kernel of forward
    const char* keys; // and of backward
    const BlockKernel& forward;
    const BackwardKernel& backward;
};
// In ladder order, as below.
const FloatUnit kFloatUnits[] = {
    {"generic", "plain C++, any processor", "plain C++, any processor", kF32Generic, kF32GenericBackward},
#if defined(__aarch64__)
    {"neon", "4 rows a vector, ARM Advanced SIMD", "4 keys a vector, ARM Advanced SIMD", kF32Neon, kF32NeonBackward},
#elif defined(__x86_64__)
    {"avx2", "8 rows a vector, AVX2 and FMA", "8 keys a vector, AVX2 and FMA", kF32Avx2, kF32Avx2Backward},
    {"avx512", "16 rows a vector, AVX-512", "16 keys a vector, AVX-512", kF32Avx512, kF32Avx512Backward},
#endif
};

// A vector unit by how it multiplies digits.
struct DigitUnit {
    const char* name;
    const char* idea;
    const BlockKernel& fixed;
    const BlockKernel& fixed16;
};
const DigitUnit kDigitUnits[] = {
#if defined(__aarch64__)
    {"sdot", "4 rows a vector, ARM dot products", kFixedSdot, kFixed16Sdot},
    {"smmla", "4 rows a vector, ARM matrix products of bytes", kFixedSmmla, kFixed16Smmla},
#elif defined(__x86_64__)
    {"avx2", "8 rows a vector, AVX2 products of 16-bit pairs", kFixedAvx2, kFixed16Avx2},
    {"avx_vnni", "8 rows a vector, AVX-VNNI dot products", kFixedAvxVnni, kFixed16AvxVnni},
    {"avx512", "16 rows a vector, AVX512-VNNI dot products", kFixedAvx512, kFixed16Avx512},
    {"amx", "16 rows a vector, AMX matrix products of bytes", kFixedAmx, kFixed16Amx},
#endif
};

Kernel backward(const std::string& name, const std::string& idea, const Contract& under, const BackwardKernel& steps) {
    return {.name = name,
            .idea = idea,
            .does = &kBackward,
            .under = &under,
            .needs = {.processor = steps.forward->supported, .masks = kEveryMask},
            .plan = plan_backward,
            .run = launch_backward,
            .blocks = steps.forward,
            .backward = &steps};
}

std::vector<Kernel> all_kernels() {
    std::vector<Kernel> table;
    for (const FloatUnit& unit : kFloatUnits)
        table.push_back(kernel_by_blocks(unit.name, unit.rows, kF32, unit.forward));
    for (const FloatUnit& unit : kFloatUnits)
        table.push_back(backward("backward_" + std::string(unit.name), unit.keys, kF32, unit.backward));
    table.push_back(kernel_by_blocks("fixed_generic", "digits in plain C++, any processor", kFixed, kFixedGeneric));
    for (const DigitUnit& unit : kDigitUnits)
        table.push_back(kernel_by_blocks("fixed_" + std::string(unit.name), unit.idea, kFixed, unit.fixed));
    table.push_back(
        kernel_by_blocks("fixed16_generic", "two digits in plain C++, any processor", kFixed16, kFixed16Generic));
    for (const DigitUnit& unit : kDigitUnits)
        table.push_back(kernel_by_blocks("fixed16_" + std::string(unit.name), unit.idea, kFixed16, unit.fixed16));
    for (const Contract* rounded : {&kBf16, &kFp16}) {
        const std::string prefix = rounded->name + std::string("_");
        const std::string on_rounded = std::string(" on numbers rounded to ") + rounded->name;
        for (const FloatUnit& unit : kFloatUnits)
            table.push_back(kernel_by_blocks(prefix + unit.name, unit.name + on_rounded, *rounded, unit.forward));
#if defined(__x86_64__)
        if (rounded == &kBf16)
            table.push_back(
                kernel_by_blocks("bf16_amx", "16 rows a vector, AMX matrix products of bf16", kBf16, kBf16Amx));
#endif
        for (const FloatUnit& unit : kFloatUnits) {
            const std::string name = std::string("backward_") + unit.name;
            table.push_back(backward(prefix + name, name + on_rounded, *rounded, unit.backward));
        }
    }
    return table;
}

} // namespace

Kernel kernel_by_blocks(const std::string& name, const std::string& idea, const Contract& under,
                        const BlockKernel& blocks) {
    return {.name = name,
            .idea = idea,
            .does = &kForward,
            .under = &under,
            .needs = {.processor = blocks.supported,
                      .masks = kEveryMask,
                      .most_dim = blocks.most_dim,
                      .elements = blocks.elements},
            .plan = plan_blocks,
            .run = launch_blocks,
            .blocks = &blocks};
}

const std::vector<Kernel>& kernels() {
    static const std::vector<Kernel> table = all_kernels();
    return table;
}

namespace {

// ---- Launches of kernels that take other elements than the launch's tensors have, or under contracts that round: the
// CPU's counterpart of src/gpu/convert.cu. Under bf16 and fp16 a kernel that takes float32 is one of f32's: its inputs
// are rounded to the contract's element and widened again, and its outputs are rounded. The bytes are the reference's.

constexpr int64_t kTogether = 1024; // numbers converted at a time, so that the floats stay in the L1 cache

// Pieces of several operands, each some rows of one head, which threads take one at a time.
class Pieces {
public:
    Pieces(const Problem& problem, const List<Operand>& operands)
        : problem_(problem), operands_(operands),
          rows_(std::max<int64_t>(static_cast<int64_t>(kPieceNumbers) / problem.dim, 1)) {
        for (const Operand& operand : operands_) count_ += of(operand);
    }

    // Calls use(operand, batch, head, first row, rows) for each piece.
    template <class Use>
    void each(const Launch& launch, const Use& use) const {
        std::atomic<int64_t> next{0};
        launch.on_threads(static_cast<int>(std::min<int64_t>(launch.threads, count_)), [&] {
            for (int64_t piece = 0; (piece = next.fetch_add(1)) < count_;) take(launch, piece, use);
        });
    }

private:
    int64_t of_head(const Operand& operand) const { return (problem_.head_rows(operand) + rows_ - 1) / rows_; }
    int64_t of(const Operand& operand) const {
        return problem_.batches * problem_.heads_of(operand) * of_head(operand);
    }

    template <class Use>
    void take(const Launch& launch, int64_t piece, const Use& use) const {
        size_t index = 0;
        for (; piece >= of(operands_[index]); ++index) piece -= of(operands_[index]);
        const Operand& operand = operands_[index];
        const int64_t unit = piece / of_head(operand);
        const int64_t first = piece % of_head(operand) * rows_;
        const int64_t heads = problem_.heads_of(operand);
        const int64_t batch = unit / heads;
        const int64_t end = operand.rows == Rows::of_keys ? launch.keys_of(batch) : problem_.head_rows(operand);
        const int64_t seen =
            operand.rows == Rows::of_keys ? launch.first_key_of(batch) / kSegmentKeys * kSegmentKeys : 0;
        if (first < end && first + rows_ > seen) use(index, batch, unit % heads, first, std::min(rows_, end - first));
    }

    const Problem& problem_;
    const List<Operand>& operands_;
    const int64_t rows_; // of a piece
    int64_t count_ = 0;
};

// Converts numbers of one element to another, rounded to a third in between. `to` may be `from`.
void convert(Element from_element, const void* from, Element rounding, Element to_element, void* to, int64_t count) {
    const bool rounds = rounding != from_element && rounding != to_element;
    const auto all = static_cast<size_t>(count);
    if (!rounds && from_element == Element::float32)
        return narrow(to_element, static_cast<const float*>(from), all, to);
    if (!rounds && to_element == Element::float32) return widen(from_element, from, all, static_cast<float*>(to));
    const auto* const taken = static_cast<const unsigned char*>(from);
    auto* const given = static_cast<unsigned char*>(to);
    float floats[kTogether];
    for (int64_t done = 0; done < count; done += kTogether) {
        const auto numbers = static_cast<size_t>(std::min(kTogether, count - done));
        const auto before = static_cast<size_t>(done);
        widen(from_element, taken + before * bytes_of(from_element), numbers, floats);
        if (rounds) round_all(rounding, floats, numbers, floats);
        narrow(to_element, floats, numbers, given + before * bytes_of(to_element));
    }
}

// Scratch memory begins with the converted inputs. Then come the outputs, if the launch's tensors cannot hold them, and
// the memory that the kernel itself needs.
class Conversion {
public:
    Conversion(const Kernel& kernel, const Problem& problem);

    bool is_needed() const { return converts_inputs_ || converts_outputs_; }
    // The problem that the kernel gets.
    const Problem& problem() const { return problem_; }
    size_t bytes() const; // of scratch memory

    // Backward recomputes O: an earlier forward pass rounded its O, and the gradients need the O before rounding.
    void launch(const Launch& asked) const;

private:
    // All inputs or all outputs of the problem, in whole cache lines.
    size_t bytes_of(const List<Operand>& list) const;
    bool changes_element() const { return problem_.element != asked_; }
    void convert_all(const Launch& launch, const List<Operand>& list, const Tensor* from, const Tensor* to) const;

    const Kernel& kernel_;
    Problem problem_;
    const Element asked_;    // of the launch's tensors
    const Element rounding_; // the contract's; float32: none
    bool converts_inputs_;
    bool converts_outputs_;
};

Conversion::Conversion(const Kernel& kernel, const Problem& problem)
    : kernel_(kernel), problem_(problem), asked_(problem.element), rounding_(kernel.under->element) {
    if (!kernel.needs.elements.has(asked_)) problem_.element = kernel.needs.elements[0];
    const bool rounds = !kernel.needs.elements.has(rounding_);
    converts_inputs_ = changes_element() || (rounds && asked_ != rounding_);
    converts_outputs_ = changes_element() || (rounds && problem_.element != rounding_);
}

size_t Conversion::bytes_of(const List<Operand>& list) const {
    const size_t bytes = static_cast<size_t>(problem_.batches * problem_.rows_of(list)) * problem_.stored_row_bytes();
    return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

size_t Conversion::bytes() const {
    return (converts_inputs_ ? bytes_of(problem_.operation->inputs) : 0) +
           (changes_element() ? bytes_of(problem_.operation->outputs) : 0);
}

void Conversion::launch(const Launch& asked) const {
    const Operation& operation = *problem_.operation;
    const auto row = static_cast<size_t>(problem_.dim);
    auto* const copies = static_cast<unsigned char*>(asked.scratch);
    auto* const outputs = copies + bytes() - (changes_element() ? bytes_of(operation.outputs) : 0);
    Launch inner = asked;
    inner.problem = problem_;
    inner.forward_out = {};
    inner.scratch = copies + bytes();
    for (size_t i = 0; i < operation.inputs.size() && converts_inputs_; ++i)
        inner.in[i] = tensor_at(problem_, operation.inputs, i, copies, row);
    for (size_t i = 0; i < operation.outputs.size() && changes_element(); ++i)
        inner.out[i] = tensor_at(problem_, operation.outputs, i, outputs, row);
    if (converts_inputs_) convert_all(asked, operation.inputs, asked.in, inner.in);
    kernel_.run(kernel_, inner);
    if (converts_outputs_) convert_all(asked, operation.outputs, inner.out, asked.out);
}

void Conversion::convert_all(const Launch& launch, const List<Operand>& list, const Tensor* from,
                             const Tensor* to) const {
    Pieces(problem_, list).each(launch, [&](size_t i, int64_t batch, int64_t head, int64_t first, int64_t rows) {
        convert(from[i].element, from[i].at(batch, head, first), rounding_, to[i].element, to[i].at(batch, head, first),
                rows * problem_.dim);
    });
}

std::string name_list(const Contract& contract, const std::vector<Kernel>& table) {
    std::string names;
    for (const Kernel& kernel : table)
        if (kernel.under == &contract) names += (names.empty() ? "" : ", ") + kernel.name;
    return names;
}

} // namespace

Plan plan_of(const Kernel& kernel, const Problem& problem, int threads) {
    const Problem asked =
        problem.of_operation(whole_of(*problem.operation)); // a kernel for the whole operation computes any part of it
    const std::string lacking = what_it_lacks(*kernel.does, kernel.needs.masks, asked);
    if (!lacking.empty()) return Plan{"kernel " + kernel.name + " " + lacking};
    if (kernel.needs.most_dim > 0 && problem.dim > kernel.needs.most_dim)
        return Plan{"kernel " + kernel.name + " takes d up to " + std::to_string(kernel.needs.most_dim) +
                    ", this case has " + std::to_string(problem.dim)};
    const Conversion conversion(kernel, problem);
    Plan plan = kernel.plan(kernel, conversion.problem(), threads);
    plan.scratch_bytes += conversion.bytes();
    return plan;
}

void Kernel::launch(const Launch& launch) const {
    const auto need_packed = [&](const Tensor& tensor) {
        if (tensor.row != launch.problem.dim)
            throw Error(ExitCode::internal, "rows " + std::to_string(tensor.row) + " numbers apart, need " +
                                                std::to_string(launch.problem.dim));
    };
    for (size_t i = 0; i < launch.problem.operation->inputs.size(); ++i) need_packed(launch.in[i]);
    for (size_t i = 0; i < launch.problem.operation->outputs.size(); ++i) need_packed(launch.out[i]);
    const Conversion conversion(*this, launch.problem);
    if (conversion.is_needed())
        conversion.launch(launch);
    else
        run(*this, launch);
}

const Kernel& choose_kernel(const std::string& name, const Problem& problem, const Contract& contract,
                            const std::vector<Kernel>& table) {
    const Kernel* best = nullptr;
    for (const Kernel& kernel : table) {
        if (name.empty()) {
            if (kernel.under == &contract && kernel.needs.processor() && plan_of(kernel, problem, 1).why_not.empty())
                best = &kernel;
            continue;
        }
        if (name != kernel.name) continue;
        refuse_other_contract(name, *kernel.under, contract);
        if (!kernel.needs.processor())
            throw Error(ExitCode::usage, "kernel '" + name + "': this processor does not support it");
        const std::string why_not = plan_of(kernel, problem, 1).why_not;
        if (!why_not.empty()) throw Error(ExitCode::bad_data, why_not);
        return kernel;
    }
    if (best != nullptr) return *best;
    if (name.empty())
        throw Error(ExitCode::bad_data, "no CPU kernel computes " + std::string(problem.operation->name) + " under " +
                                            contract.name + " for this case");
    throw Error(ExitCode::usage, "no CPU kernel '" + name + "', there are: " + name_list(contract, table));
}

Launch launch_of(const Problem& problem, const void* in, void* out, void* scratch, int threads) {
    Launch launch;
    launch.problem = problem;
    launch.threads = threads;
    const auto row = static_cast<size_t>(problem.dim);
    const Operation& operation = *problem.operation;
    for (size_t i = 0; i < operation.inputs.size(); ++i)
        launch.in[i] = tensor_at(problem, operation.inputs, i, in, row);
    for (size_t i = 0; i < operation.outputs.size(); ++i)
        launch.out[i] = tensor_at(problem, operation.outputs, i, out, row);
    launch.scratch = scratch;
    launch.done = [](int64_t) {};
    return launch;
}

} // namespace hw4::cpu
