#include "src/cpu/kernels.h"

#include <algorithm>
#include <atomic>

#include "src/base/error.h"
#include "src/cpu/aligned_memory.h"
#include "src/problem/words.h"
#include "src/run/engine.h"

namespace hw4::cpu {

const std::vector<Kernel>& kernels() {
    const auto by_blocks = [](const char* name, const char* idea, const Contract& under, const BlockKernel& blocks) {
        return Kernel{.name = name,
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
    };
    const auto backward = [](const char* name, const char* idea, const BackwardKernel& steps) {
        const BlockKernel& forward = steps.forward();
        return Kernel{.name = name,
                      .idea = idea,
                      .does = &kBackward,
                      .under = &kF32,
                      .needs = {.processor = forward.supported, .masks = kEveryMask},
                      .plan = plan_backward,
                      .run = launch_backward,
                      .blocks = &forward,
                      .backward = &steps};
    };
    // f32's kernels on numbers rounded to the contract's element.
    const auto rounded_backward = [&](const char* name, const char* idea, const Contract& under,
                                      const BackwardKernel& steps) {
        Kernel kernel = backward(name, idea, steps);
        kernel.under = &under;
        return kernel;
    };
    static const std::vector<Kernel> table = {
        by_blocks("generic", "plain C++, any processor", kF32, f32_generic_blocks()),
#if defined(__aarch64__)
        by_blocks("neon", "4 rows a vector, ARM Advanced SIMD", kF32, f32_neon_blocks()),
#elif defined(__x86_64__)
        by_blocks("avx2", "8 rows a vector, AVX2 and FMA", kF32, f32_avx2_blocks()),
        by_blocks("avx512", "16 rows a vector, AVX-512", kF32, f32_avx512_blocks()),
#endif
        backward("backward_generic", "plain C++, any processor", f32_generic_backward()),
#if defined(__aarch64__)
        backward("backward_neon", "4 keys a vector, ARM Advanced SIMD", f32_neon_backward()),
#elif defined(__x86_64__)
        backward("backward_avx2", "8 keys a vector, AVX2 and FMA", f32_avx2_backward()),
        backward("backward_avx512", "16 keys a vector, AVX-512", f32_avx512_backward()),
#endif
        by_blocks("fixed_generic", "digits in plain C++, any processor", kFixed, fixed_generic_blocks()),
#if defined(__aarch64__)
        by_blocks("fixed_sdot", "4 rows a vector, ARM dot products", kFixed, fixed_sdot_blocks()),
        by_blocks("fixed_smmla", "4 rows a vector, ARM matrix products of bytes", kFixed, fixed_smmla_blocks()),
#elif defined(__x86_64__)
        by_blocks("fixed_avx2", "8 rows a vector, AVX2 products of 16-bit pairs", kFixed, fixed_avx2_blocks()),
        by_blocks("fixed_avx_vnni", "8 rows a vector, AVX-VNNI dot products", kFixed, fixed_avx_vnni_blocks()),
        by_blocks("fixed_avx512", "16 rows a vector, AVX512-VNNI dot products", kFixed, fixed_avx512_blocks()),
        by_blocks("fixed_amx", "16 rows a vector, AMX matrix products of bytes", kFixed, fixed_amx_blocks()),
#endif
        by_blocks("fixed16_generic", "two digits in plain C++, any processor", kFixed16, fixed16_generic_blocks()),
#if defined(__aarch64__)
        by_blocks("fixed16_sdot", "4 rows a vector, ARM dot products", kFixed16, fixed16_sdot_blocks()),
        by_blocks("fixed16_smmla", "4 rows a vector, ARM matrix products of bytes", kFixed16, fixed16_smmla_blocks()),
#elif defined(__x86_64__)
        by_blocks("fixed16_avx2", "8 rows a vector, AVX2 products of 16-bit pairs", kFixed16, fixed16_avx2_blocks()),
        by_blocks("fixed16_avx_vnni", "8 rows a vector, AVX-VNNI dot products", kFixed16, fixed16_avx_vnni_blocks()),
        by_blocks("fixed16_avx512", "16 rows a vector, AVX512-VNNI dot products", kFixed16, fixed16_avx512_blocks()),
        by_blocks("fixed16_amx", "16 rows a vector, AMX matrix products of bytes", kFixed16, fixed16_amx_blocks()),
#endif
        by_blocks("bf16_generic", "generic on numbers rounded to bf16", kBf16, f32_generic_blocks()),
#if defined(__aarch64__)
        by_blocks("bf16_neon", "neon on numbers rounded to bf16", kBf16, f32_neon_blocks()),
#elif defined(__x86_64__)
        by_blocks("bf16_avx2", "avx2 on numbers rounded to bf16", kBf16, f32_avx2_blocks()),
        by_blocks("bf16_avx512", "avx512 on numbers rounded to bf16", kBf16, f32_avx512_blocks()),
        by_blocks("bf16_amx", "16 rows a vector, AMX matrix products of bf16", kBf16, bf16_amx_blocks()),
#endif
        rounded_backward("bf16_backward_generic", "backward_generic on numbers rounded to bf16", kBf16,
                         f32_generic_backward()),
#if defined(__aarch64__)
        rounded_backward("bf16_backward_neon", "backward_neon on numbers rounded to bf16", kBf16, f32_neon_backward()),
#elif defined(__x86_64__)
        rounded_backward("bf16_backward_avx2", "backward_avx2 on numbers rounded to bf16", kBf16, f32_avx2_backward()),
        rounded_backward("bf16_backward_avx512", "backward_avx512 on numbers rounded to bf16", kBf16,
                         f32_avx512_backward()),
#endif
        by_blocks("fp16_generic", "generic on numbers rounded to fp16", kFp16, f32_generic_blocks()),
#if defined(__aarch64__)
        by_blocks("fp16_neon", "neon on numbers rounded to fp16", kFp16, f32_neon_blocks()),
#elif defined(__x86_64__)
        by_blocks("fp16_avx2", "avx2 on numbers rounded to fp16", kFp16, f32_avx2_blocks()),
        by_blocks("fp16_avx512", "avx512 on numbers rounded to fp16", kFp16, f32_avx512_blocks()),
#endif
        rounded_backward("fp16_backward_generic", "backward_generic on numbers rounded to fp16", kFp16,
                         f32_generic_backward()),
#if defined(__aarch64__)
        rounded_backward("fp16_backward_neon", "backward_neon on numbers rounded to fp16", kFp16, f32_neon_backward()),
#elif defined(__x86_64__)
        rounded_backward("fp16_backward_avx2", "backward_avx2 on numbers rounded to fp16", kFp16, f32_avx2_backward()),
        rounded_backward("fp16_backward_avx512", "backward_avx512 on numbers rounded to fp16", kFp16,
                         f32_avx512_backward()),
#endif
    };
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
        if (kernel.under == &contract) names += (names.empty() ? "" : ", ") + std::string(kernel.name);
    return names;
}

} // namespace

Plan plan_of(const Kernel& kernel, const Problem& problem, int threads) {
    const Problem asked =
        problem.of_operation(whole_of(*problem.operation)); // a kernel for the whole operation computes any part of it
    const std::string lacking = what_it_lacks(*kernel.does, kernel.needs.masks, asked);
    if (!lacking.empty()) return Plan{"kernel " + std::string(kernel.name) + " " + lacking};
    if (kernel.needs.most_dim > 0 && problem.dim > kernel.needs.most_dim)
        return Plan{"kernel " + std::string(kernel.name) + " takes d up to " + std::to_string(kernel.needs.most_dim) +
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
