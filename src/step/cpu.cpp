#include "src/step/cpu.h"

#include "src/step/heads.h"
#include "src/step/orders.h"
#include "src/step/product.h"
#include "src/step/team.h"

namespace hw4::step {
namespace {

constexpr int64_t kPieceFloats = 1 << 14; // that a thread takes at a time

// Rows of so many floats, at least one.
int64_t piece_of(int64_t width) { return std::max<int64_t>(kPieceFloats / width, 1); }

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
    Cpu(int threads, const Kernels& kernels) : team_(threads), kernels_(kernels), products_(kernels) {}

    void fill(float* to, float value, size_t count) override {
        pieces(count, [&](int64_t first, int64_t floats) { std::fill_n(to + first, floats, value); });
    }

    void embed(const Tokens& tokens, const float* table, float* x, int64_t width) override {
        rows(tokens.rows(), width, [&](int64_t t) {
            std::copy_n(table + tokens.inputs[static_cast<size_t>(t)] * width, width, x + t * width);
        });
    }

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

    void linear(const float* x, const float* w, const float* residual, float* y, int64_t rows, int64_t inputs,
                int64_t outputs) override {
        products_.multiply(team_, {rows, outputs, inputs, 1, kLeaf}, {x, inputs, 1}, {w, inputs, 1}, residual, y);
    }
    void linear_back(const float* dy, const float* w, float* dx, int64_t rows, int64_t inputs,
                     int64_t outputs) override {
        products_.multiply(team_, {rows, inputs, outputs, 1, kLeaf}, {dy, outputs, 1}, {w, 1, inputs}, nullptr, dx);
    }
    void linear_weights(const float* dy, const float* x, float* dw, int64_t sequences, int64_t context, int64_t inputs,
                        int64_t outputs) override {
        products_.multiply(team_, {outputs, inputs, context, sequences, context}, {dy, 1, outputs}, {x, 1, inputs},
                           nullptr, dw);
    }

    void norm(const float* x, const float* gain, float* y, float* factors, int64_t count, int64_t width) override {
        rows(count, width,
             [&](int64_t row) { kernels_.norm(x + row * width, gain, y + row * width, factors + row, width); });
    }
    void norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx, int64_t count,
                   int64_t width) override {
        rows(count, width, [&](int64_t row) {
            kernels_.norm_back(x + row * width, gain, factors[row], dy + row * width, dx + row * width, width);
        });
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

    void rotate(float* qkv, const float* table, int64_t sequences, int64_t context, const Model& model,
                bool back) override {
        const int64_t dim = model.head_width();
        rows(sequences * context, 3 * model.width, [&](int64_t t) {
            for (int64_t head = 0; head < 2 * model.heads; ++head) // q's, then k's
                kernels_.rotate(qkv + t * 3 * model.width + head * dim, table + t % context * dim, dim / 2, back);
        });
    }
    void attend(const float* qkv, float* o, RowStatistics* statistics, int64_t sequences, int64_t context,
                const Model& model) override {
        heads_.attend(team_, qkv, o, statistics, sequences, context, model);
    }
    void attend_back(const float* qkv, const float* o, const RowStatistics* statistics, const float* d_o, float* d_qkv,
                     int64_t sequences, int64_t context, const Model& model) override {
        heads_.attend_back(team_, qkv, o, statistics, d_o, d_qkv, sequences, context, model);
    }

    void swiglu(const float* gate_up, float* h, int64_t count, int64_t hidden) override {
        rows(count, hidden, [&](int64_t row) {
            const float* const u = gate_up + row * 2 * hidden;
            kernels_.swiglu(u, u + hidden, h + row * hidden, hidden);
        });
    }
    void swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t count, int64_t hidden) override {
        rows(count, hidden, [&](int64_t row) {
            const float* const u = gate_up + row * 2 * hidden;
            float* const du = d_gate_up + row * 2 * hidden;
            kernels_.swiglu_back(u, u + hidden, dh + row * hidden, du, du + hidden, hidden);
        });
    }

    std::vector<double> cross_entropy(float* logits, const Tokens& tokens, int64_t vocabulary, float share) override {
        std::vector<double> losses(static_cast<size_t>(tokens.rows()));
        rows(tokens.rows(), vocabulary, [&](int64_t t) {
            const auto i = static_cast<size_t>(t);
            losses[i] = kernels_.cross_entropy(logits + t * vocabulary, tokens.targets[i], vocabulary, share);
        });
        std::vector<double> sums(static_cast<size_t>(tokens.sequences));
        for (size_t t = 0; t < losses.size(); ++t) {
            double& sum = sums[t / static_cast<size_t>(tokens.context)];
            sum = sum + losses[t];
        }
        return sums;
    }

    void add(float* a, const float* b, size_t count) override {
        pieces(count, [&](int64_t first, int64_t floats) { add_floats(a + first, b + first, floats); });
    }
    void squares(const float* x, size_t count, float* sums) override {
        rows(static_cast<int64_t>(count) / kSegment, kSegment,
             [&](int64_t i) { sums[i] = kernels_.squares(x + i * kSegment); });
    }
    void adamw(float* p, const float* g, float* m, float* v, size_t count, const Adam& step) override {
        pieces(count, [&](int64_t first, int64_t floats) {
            kernels_.adamw(p + first, g + first, m + first, v + first, floats, step);
        });
    }

private:
    template <class Work>
    void rows(int64_t count, int64_t width, const Work& work) {
        team_.pieces(count, piece_of(width), [&](int64_t first, int64_t some, int) {
            for (int64_t row = first; row < first + some; ++row) work(row);
        });
    }

    template <class Work>
    void pieces(size_t count, const Work& work) {
        team_.pieces(static_cast<int64_t>(count), kPieceFloats,
                     [&](int64_t first, int64_t floats, int) { work(first, floats); });
    }

    Team team_;
    const Kernels& kernels_;
    Products products_;
    Heads heads_;
    Room room_;
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
