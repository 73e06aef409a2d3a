#include "src/cpu/rounded.h"

#include <algorithm>
#include <atomic>

#include "src/cpu/aligned_memory.h"
#include "src/cpu/backward.h"
#include "src/cpu/by_blocks.h"

namespace hw4::cpu {
namespace {

constexpr int64_t kPieceFloats = 1 << 16;

// Stretches of rows of one head, which threads take one at a time, of several operands.
class Pieces {
public:
    Pieces(const Problem& problem, const List<Operand>& operands)
        : problem_(problem), operands_(operands), rows_(std::max<int64_t>(kPieceFloats / problem.dim, 1)) {
        for (const Operand& operand : operands_) count_ += of(operand);
    }

    // round(operand, batch, head, first row, rows) for each of them.
    template <class Round>
    void each(const Launch& launch, const Round& round) const {
        std::atomic<int64_t> next{0};
        launch.on_threads(static_cast<int>(std::min<int64_t>(launch.threads, count_)), [&] {
            for (int64_t piece = 0; (piece = next.fetch_add(1)) < count_;) take(piece, round);
        });
    }

private:
    int64_t of_head(const Operand& operand) const { return (problem_.head_rows(operand) + rows_ - 1) / rows_; }
    int64_t of(const Operand& operand) const {
        return problem_.batches * problem_.heads_of(operand) * of_head(operand);
    }

    template <class Round>
    void take(int64_t piece, const Round& round) const {
        size_t index = 0;
        for (; piece >= of(operands_[index]); ++index) piece -= of(operands_[index]);
        const Operand& operand = operands_[index];
        const int64_t unit = piece / of_head(operand);
        const int64_t first = piece % of_head(operand) * rows_;
        const int64_t heads = problem_.heads_of(operand);
        round(index, unit / heads, unit % heads, first, std::min(rows_, problem_.head_rows(operand) - first));
    }

    const Problem& problem_;
    const List<Operand>& operands_;
    const int64_t rows_; // of a piece
    int64_t count_ = 0;
};

// Of the rounded inputs, in whole cache lines: f32's scratch follows.
size_t copy_bytes(const Problem& problem) { return (problem.input_bytes() + kCacheLine - 1) / kCacheLine * kCacheLine; }

// f32's kernel of the same blocks.
void launch_f32(const Kernel& kernel, Launch launch) {
    if (kernel.backward == nullptr) return launch_blocks(kernel, launch);
    launch.forward_out = {};
    launch.scratch = static_cast<unsigned char*>(launch.scratch) + copy_bytes(launch.problem);
    launch_backward(kernel, launch);
}

} // namespace

Plan plan_rounded(const Kernel& kernel, const Problem& problem, int threads) {
    const Plan plan = kernel.backward == nullptr ? Plan{} : plan_backward(kernel, problem, threads);
    return {plan.why_not, copy_bytes(problem) + plan.scratch_bytes};
}

void launch_rounded(const Kernel& kernel, const Launch& launch) {
    need_packed_rows(launch);
    const Problem& problem = launch.problem;
    const Element element = kernel.under->element;
    auto* const copies = static_cast<float*>(launch.scratch);
    Launch rounded = launch;
    for (size_t i = 0; i < problem.operation->inputs.size(); ++i)
        rounded.in[i] = operand_at<const float>(problem, problem.operation->inputs, i, copies, launch.in[i].row);
    const auto to_type = [&](const float* from, int64_t first, int64_t rows, float* to) {
        const int64_t begin = first * problem.dim;
        round_all(element, from + begin, problem.floats_in(rows), to + begin);
    };
    Pieces(problem, problem.operation->inputs)
        .each(launch, [&](size_t i, int64_t batch, int64_t head, int64_t first, int64_t rows) {
            const Matrix<float> copy = operand_at(problem, problem.operation->inputs, i, copies, launch.in[i].row);
            to_type(launch.in[i].of(batch, head), first, rows, copy.of(batch, head));
        });
    launch_f32(kernel, rounded);
    Pieces(problem, problem.operation->outputs)
        .each(launch, [&](size_t i, int64_t batch, int64_t head, int64_t first, int64_t rows) {
            float* const out = launch.out[i].of(batch, head);
            to_type(out, first, rows, out);
        });
}

} // namespace hw4::cpu
