#include "src/step/heads.h"

#include <new>

#include "src/base/error.h"

namespace hw4::step {
namespace {

// One of `matrices` matrices side by side in rows.
struct Columns {
    float* rows;
    int64_t matrix;
    int64_t matrices;
};

Columns reading(const float* rows, int64_t matrix, int64_t matrices) {
    return {const_cast<float*>(rows), matrix, matrices}; // NOLINT(cppcoreguidelines-pro-type-const-cast): not written
}

// Tensors of [sequence][head][token][dim], taken from rows of whole tokens and given back to them.
class Unpacked {
public:
    Unpacked(Team& team, Room& room, int64_t tensors, int64_t sequences, int64_t context, const Model& model)
        : team_(team), model_(model), sequences_(sequences), context_(context),
          // Each begins at a cache line.
          tensor_((sequences * context * model.width + 15) / 16 * 16), memory_(room.of(tensors * tensor_)) {}

    Tensor tensor(int64_t index) const {
        const int64_t head = context_ * model_.head_width();
        return {memory_ + index * tensor_, Element::float32, model_.heads * head, head, model_.head_width()};
    }

    Tensor take(int64_t index, Columns from) const {
        each(index, from, [&](float* head, const HeadPlace& at, float* rows) { take_head(rows, at, context_, head); });
        return tensor(index);
    }
    void give(int64_t index, Columns to) const {
        each(index, to, [&](float* head, const HeadPlace& at, float* rows) { give_head(head, at, context_, rows); });
    }

    Problem problem(const Operation& operation) const {
        Problem problem(sequences_, context_, model_.head_width());
        problem.heads = problem.kv_heads = model_.heads;
        problem.mask = Mask::causal;
        problem.operation = &operation;
        return problem;
    }

    // The tensors are those of the launch; the kernel is the fastest of this processor.
    void launch(cpu::Launch& launch, const Operation& operation, Room& scratch) const {
        launch.problem = problem(operation);
        launch.threads = team_.threads();
        launch.crew = &team_.crew();
        launch.done = [](int64_t) {};
        const cpu::Kernel& kernel = cpu::choose_kernel("", launch.problem, kF32);
        const size_t bytes = cpu::plan_of(kernel, launch.problem, launch.threads).scratch_bytes;
        launch.scratch = scratch.of(static_cast<int64_t>(bytes / sizeof(float)) + 1);
        try {
            kernel.launch(launch);
        } catch (const std::bad_alloc&) {
            throw Error(ExitCode::out_of_memory, "attention of a training step lacks host memory");
        }
    }

private:
    template <class Copy>
    void each(int64_t index, Columns columns, const Copy& copy) const {
        const int64_t width = model_.head_width();
        team_.each(sequences_ * model_.heads, [&](int64_t unit, int) {
            const HeadPlace at{columns.matrix * model_.width + unit % model_.heads * width,
                               columns.matrices * model_.width, width};
            copy(memory_ + index * tensor_ + unit * context_ * width, at,
                 columns.rows + unit / model_.heads * context_ * at.columns);
        });
    }

    Team& team_;
    const Model& model_;
    const int64_t sequences_;
    const int64_t context_;
    const int64_t tensor_; // floats
    float* const memory_;
};

} // namespace

void Heads::attend(Team& team, const float* qkv, float* o, RowStatistics* statistics, int64_t sequences,
                   int64_t context, const Model& model) {
    const Unpacked heads(team, operands_, 4, sequences, context, model);
    cpu::Launch launch;
    for (int64_t i = 0; i < 3; ++i) launch.in[i] = heads.take(i, reading(qkv, i, 3));
    launch.out[0] = heads.tensor(3);
    launch.statistics = statistics;
    heads.launch(launch, kForward, scratch_);
    heads.give(3, {o, 0, 1});
}

void Heads::attend_back(Team& team, const float* qkv, const float* o, const RowStatistics* statistics, const float* d_o,
                        float* d_qkv, int64_t sequences, int64_t context, const Model& model) {
    const Unpacked heads(team, operands_, 8, sequences, context, model);
    cpu::Launch launch;
    for (int64_t i = 0; i < 3; ++i) {
        launch.in[i] = heads.take(i, reading(qkv, i, 3));
        launch.out[i] = heads.tensor(5 + i);
    }
    launch.in[3] = heads.take(3, reading(d_o, 0, 1));
    launch.forward_out = heads.take(4, reading(o, 0, 1));
    launch.statistics = const_cast<RowStatistics*>(statistics); // NOLINT: backward reads them
    heads.launch(launch, kBackward, scratch_);
    for (int64_t i = 0; i < 3; ++i) heads.give(5 + i, {d_qkv, i, 3});
}

} // namespace hw4::step
