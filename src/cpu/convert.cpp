#include "src/cpu/convert.h"

#include <algorithm>
#include <atomic>

#include "src/cpu/aligned_memory.h"

namespace hw4::cpu {
namespace {

constexpr int64_t kPieceNumbers = 1 << 16;
constexpr int64_t kTogether = 1024; // numbers that are floats at a time, in the nearest cache

// Stretches of rows of one head, which threads take one at a time, of several operands.
class Pieces {
public:
    Pieces(const Problem& problem, const List<Operand>& operands)
        : problem_(problem), operands_(operands), rows_(std::max<int64_t>(kPieceNumbers / problem.dim, 1)) {
        for (const Operand& operand : operands_) count_ += of(operand);
    }

    // use(operand, batch, head, first row, rows) for each of them.
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
        if (first < end) use(index, batch, unit % heads, first, std::min(rows_, end - first));
    }

    const Problem& problem_;
    const List<Operand>& operands_;
    const int64_t rows_; // of a piece
    int64_t count_ = 0;
};

// Numbers of one element as those of another, rounded to a third in between. `to` may be `from`.
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

} // namespace

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

} // namespace hw4::cpu
