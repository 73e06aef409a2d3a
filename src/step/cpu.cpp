#include "src/step/cpu.h"

#include "src/step/heads.h"
#include "src/step/orders.h"
#include "src/step/product.h"
#include "src/step/team.h"

namespace hw4::step {
namespace {

// The tree over leaves of `floats` floats one after the other; the sum takes the first one's place.
void add_tree(float* leaves, int64_t count, int64_t floats) {
    for (int64_t size = 1; size < count; size *= 2)
        for (int64_t s = 0; s + size < count; s += 2 * size)
            add_floats(leaves + s * floats, leaves + (s + size) * floats, floats);
}

// The places of each token among the inputs, ascending.
struct Occurrences {
    Occurrences(const Tokens& tokens, int64_t vocabulary)
        : first(static_cast<size_t>(vocabulary) + 1), places(tokens.inputs.size()) {
        for (const int32_t id : tokens.inputs) ++first[static_cast<size_t>(id) + 1];
        for (size_t id = 1; id < first.size(); ++id) first[id] += first[id - 1];
        std::vector<int64_t> next = first;
        for (size_t t = 0; t < places.size(); ++t)
            places[static_cast<size_t>(next[static_cast<size_t>(tokens.inputs[t])]++)] = static_cast<int64_t>(t);
    }
    std::vector<int64_t> first; // of each token
    std::vector<int64_t> places;
};

class Cpu : public HostMachine {
public:
    Cpu(int threads, const Kernels& kernels) : HostMachine(kernels), team_(threads), products_(kernels) {}

    void embed_back(const Tokens& tokens, const float* dx, float* d_table, int64_t vocabulary, int64_t width) override {
        const Occurrences of(tokens, vocabulary);
        const int64_t floats = (tokens.sequences + 1) * width; // leaves, a chain
        float* const memory = room_.of(floats * team_.threads());
        team_.pieces(vocabulary, piece_of(width), [&](int64_t first, int64_t count, int thread) {
            float* const leaves = memory + thread * floats;
            float* const chain = leaves + tokens.sequences * width;
            for (int64_t id = first; id < first + count; ++id) {
                const int64_t* place = of.places.data() + of.first[static_cast<size_t>(id)];
                const int64_t* const end = of.places.data() + of.first[static_cast<size_t>(id) + 1];
                std::fill_n(leaves, place == end ? width : tokens.sequences * width, 0.0f);
                while (place != end) {
                    const int64_t sequence = *place / tokens.context;
                    const int64_t chain_end =
                        sequence * tokens.context + (*place % tokens.context / kChain + 1) * kChain;
                    std::fill_n(chain, width, 0.0f);
                    // The chain may reach beyond the sequence.
                    for (; place != end && *place < chain_end && *place / tokens.context == sequence; ++place)
                        add_floats(chain, dx + *place * width, width);
                    add_floats(leaves + sequence * width, chain, width);
                    if (place == end) add_tree(leaves, tokens.sequences, width);
                }
                std::copy_n(leaves, width, d_table + id * width);
            }
        });
    }

    size_t scratch_bytes() const override {
        return HostMachine::scratch_bytes() + products_.scratch_bytes() + room_.bytes() + scratch_.bytes();
    }

    void linear(const float* x, const float* w, const float* residual, float* y, int64_t count, int64_t inputs,
                int64_t outputs) override {
        products_.multiply(team_, {count, outputs, inputs, 1, kLeaf}, {x, inputs, 1}, {w, inputs, 1}, residual, y);
    }
    void linear_back(const float* dy, const float* w, float* dx, int64_t count, int64_t inputs,
                     int64_t outputs) override {
        products_.multiply(team_, {count, inputs, outputs, 1, kLeaf}, {dy, outputs, 1}, {w, 1, inputs}, nullptr, dx);
    }
    void linear_weights(const float* dy, const float* x, float* dw, int64_t sequences, int64_t context, int64_t inputs,
                        int64_t outputs) override {
        products_.multiply(team_, {outputs, inputs, context, sequences, context}, {dy, 1, outputs}, {x, 1, inputs},
                           nullptr, dw);
    }

    void norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                   int64_t context, int64_t width) override {
        float* const leaves = room_.of(sequences * width);
        constexpr int64_t kColumns = 64; // of a task
        const int64_t stripes = (width + kColumns - 1) / kColumns;
        team_.each(sequences * stripes, [&](int64_t task, int) {
            const int64_t s = task / stripes;
            const int64_t column = task % stripes * kColumns;
            const int64_t at = s * context * width + column;
            kernels_.norm_gain(x + at, factors + s * context, dy + at, leaves + s * width + column, context, width,
                               std::min(kColumns, width - column));
        });
        add_tree(leaves, sequences, width);
        std::copy_n(leaves, width, d_gain);
    }

private:
    void in_pieces(int64_t things, int64_t piece, const Work& work) override {
        team_.pieces(things, piece, [&](int64_t first, int64_t count, int) { work(first, count); });
    }
    void compute(const Problem& problem, const float* in, const float* forward_out, RowStatistics* statistics,
                 float* out) override {
        compute_heads(team_, scratch_, problem, in, forward_out, statistics, out);
    }

    Team team_;
    Products products_;
    Room room_;
    Room scratch_; // of attention
};

} // namespace

std::vector<const Kernels*> supported_kernels() {
    std::vector<const Kernels*> kernels = {&generic_kernels()};
#if defined(__x86_64__)
    for (const Kernels* unit : {&avx2_kernels(), &avx512_kernels()})
        if (unit->supported()) kernels.push_back(unit);
#endif
    return kernels;
}

std::unique_ptr<Machine> make_cpu(int threads, const Kernels& kernels) {
    return std::make_unique<Cpu>(threads, kernels);
}

} // namespace hw4::step
