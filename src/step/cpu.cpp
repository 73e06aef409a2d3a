#include "src/cpu/kernels.h"
#include "src/step/orders.h"
#include "src/step/product.h"
#include "src/step/rounded_operands.h"
#include "src/step/token_leaves.h"

namespace hw4::step {
namespace {

// The tree over leaves of `floats` floats one after the other; the sum takes the first one's place.
void add_tree(float* leaves, int64_t count, int64_t floats) {
    for (int64_t size = 1; size < count; size *= 2)
        for (int64_t s = 0; s + size < count; s += 2 * size)
            add_floats(leaves + s * floats, leaves + (s + size) * floats, floats);
}

class Cpu : public HostMachine {
public:
    Cpu(int threads, const Kernels& kernels) : HostMachine(kernels, threads), products_(kernels) {}

    void embed_back(const Tokens& tokens, const float* dx, float* d_table, int64_t vocabulary, int64_t width) override {
        const TokenLeaves of(tokens);
        float* const leaves = room_.of((of.leaf_count() + team_.threads()) * width);
        clear(d_table, static_cast<size_t>(vocabulary * width));
        team_.pieces(of.token_count(), piece_of(width), [&](int64_t first, int64_t count, int thread) {
            float* const chain = leaves + (of.leaf_count() + thread) * width;
            const auto sum_leaf = [&](int32_t leaf) {
                float* const total = leaves + leaf * width;
                std::fill_n(total, width, 0.0f);
                std::fill_n(chain, width, 0.0f);
                for (int32_t i = of.begins.data()[leaf]; i < of.begins.data()[leaf + 1]; ++i) {
                    const int32_t place = of.places.data()[i];
                    if (place < 0) {
                        add_floats(total, chain, width);
                        std::fill_n(chain, width, 0.0f);
                    }
                    add_floats(chain, dx + (place < 0 ? ~place : place) * width, width);
                }
                add_floats(total, chain, width);
            };
            for (int64_t i = first; i < first + count; ++i) {
                const int32_t* const token = of.tokens.data() + 3 * i; // and the next one after it
                for (int32_t leaf = token[1]; leaf < token[4]; ++leaf) sum_leaf(leaf);
                const int32_t* const joins = of.joins.data();
                for (int64_t join = token[2]; join < token[5]; ++join)
                    add_floats(leaves + joins[2 * join] * width, leaves + joins[2 * join + 1] * width, width);
                std::copy_n(leaves + token[1] * width, width, d_table + token[0] * width);
            }
        });
    }

    size_t scratch_bytes() const override {
        return HostMachine::scratch_bytes() + products_.scratch_bytes() + room_.bytes() + scratch_.bytes();
    }

    void multiply(const LinearProduct& of) override { products_.multiply(team_, of); }

    void norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                   int64_t context, int64_t width) override {
        float* const leaves = room_.of(sequences * width);
        const int64_t stripes = parts(width, kGainColumns);
        team_.each(sequences * stripes, [&](int64_t task, int) {
            const int64_t s = task / stripes;
            const int64_t column = task % stripes * kGainColumns;
            const int64_t at = s * context * width + column;
            kernels_.norm_gain(x + at, factors + s * context, dy + at, leaves + s * width + column, context, width,
                               std::min(kGainColumns, width - column));
        });
        add_tree(leaves, sequences, width);
        std::copy_n(leaves, width, d_gain);
    }

protected:
    void compute(const Problem& problem, float* in, const float* forward_out, RowStatistics* statistics,
                 float* out) override {
        const cpu::Kernel& kernel = cpu::choose_kernel("", problem, kF32);
        const size_t bytes = cpu::plan_of(kernel, problem, team_.threads()).scratch_bytes;
        float* const memory = scratch_.of(static_cast<int64_t>(bytes / sizeof(float)) + 1);
        cpu::Launch launch = cpu::launch_of(problem, in, out, memory, team_.threads());
        launch.crew = &team_.crew();
        launch.statistics = statistics;
        if (forward_out != nullptr)
            launch.forward_out = tensor_at(problem, kForward.outputs, 0, forward_out, static_cast<size_t>(problem.dim));
        try {
            kernel.launch(launch);
        } catch (const std::bad_alloc&) {
            throw Error(ExitCode::out_of_memory, "attention of a training step lacks host memory");
        }
    }

private:
    Products products_;
    Buffer room_;
    Buffer scratch_; // of attention
};

} // namespace

std::vector<const Kernels*> supported_kernels() {
    std::vector<const Kernels*> kernels = {&kGenericKernels};
#if defined(__x86_64__)
    for (const Kernels* unit : {&kAvx2Kernels, &kAvx512Kernels})
        if (unit->supported()) kernels.push_back(unit);
#endif
    return kernels;
}

std::unique_ptr<Machine> make_cpu(int threads, const Contract& contract, const Kernels& kernels) {
    if (&contract == &kBf16) return std::make_unique<RoundedOperands<Cpu>>(threads, kernels);
    return std::make_unique<Cpu>(threads, kernels);
}

} // namespace hw4::step
