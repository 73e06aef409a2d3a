// Every operation of a machine on drawn numbers, as a function that returns all that the operation writes.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/float_bits.h"
#include "src/step/machine.h"

namespace hw4::step {

using Floats = std::vector<float>;

// Spread numbers have every size from denormals to 2^30; of zeros some are -0, and some are 1.
enum class Numbers { ordinary, spread, zeros };

// The same on every machine: made of integers.
class Draw {
public:
    explicit Draw(Numbers kind, uint64_t seed = 1) : kind_(kind), state_(seed << 32) {}

    uint32_t bits() {
        uint64_t x = ++state_ * 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
        return static_cast<uint32_t>((x ^ x >> 32) >> 16);
    }
    float number() {
        const uint32_t u = bits();
        const float plain = static_cast<float>(static_cast<int32_t>(u >> 8) - (1 << 23)) * 0x1.8p-22f; // -3 to 3
        if (kind_ == Numbers::ordinary) return plain;
        if (kind_ == Numbers::zeros) return u % 8 == 0 ? 1.0f : u % 3 == 0 ? -0.0f : 0.0f;
        return std::ldexp(plain, static_cast<int>(u % 179) - 149);
    }
    Floats numbers(size_t count) {
        Floats all(count);
        for (float& x : all) x = number();
        return all;
    }

private:
    Numbers kind_;
    uint64_t state_;
};

struct Shape {
    int64_t sequences, context;
    int64_t inputs;  // width too
    int64_t outputs; // hidden width, vocabulary
    int64_t heads, head_width;

    int64_t rows() const { return sequences * context; }
    Model model() const { return {heads * head_width, 0, 0, heads, outputs}; }
    std::string text() const {
        return std::to_string(sequences) + " x " + std::to_string(context) + ", " + std::to_string(inputs) + " to " +
               std::to_string(outputs);
    }
};

inline Tokens drawn_tokens(const Shape& shape) {
    Draw draw(Numbers::ordinary, 99);
    Tokens tokens{shape.sequences, shape.context, {}, {}};
    for (int64_t t = 0; t < shape.rows(); ++t) {
        const auto any = static_cast<int32_t>(draw.bits() % static_cast<uint32_t>(shape.outputs));
        tokens.inputs.push_back(t % 3 == 0 ? any % 3 : any); // some often, some never
        tokens.targets.push_back(static_cast<int32_t>(draw.bits() % static_cast<uint32_t>(shape.outputs)));
    }
    return tokens;
}

// A machine, and operands of an operation in its memory.
class Bench {
public:
    Bench(Machine& machine, const Shape& shape, Numbers kind)
        : m(machine), s(shape), tokens(drawn_tokens(shape)), draw(kind) {}

    const float* in(int64_t count) { return put(draw.numbers(static_cast<size_t>(count))); }
    float* put(const Floats& values) {
        memory_.push_back(m.floats(values.size()));
        m.put(memory_.back().get(), values.data(), values.size());
        return memory_.back().get();
    }
    // Memory that the operation must fill.
    float* out(int64_t count) { return inout(Floats(static_cast<size_t>(count), NAN)); }
    float* inout(const Floats& values) {
        outputs_.emplace_back(put(values), values.size());
        return outputs_.back().first;
    }
    Floats results() const {
        Floats all;
        for (const auto& [at, count] : outputs_) {
            all.resize(all.size() + count);
            m.get(all.data() + all.size() - count, at, count);
        }
        return all;
    }

    Machine& m;
    Shape s;
    Tokens tokens;
    Draw draw;

private:
    std::vector<Owned<float>> memory_;
    std::vector<std::pair<float*, size_t>> outputs_;
};

struct NamedOperation {
    const char* name;
    Floats (*run)(Bench b);
};

inline Floats of_doubles(const std::vector<double>& values) {
    Floats words(2 * values.size());
    std::memcpy(words.data(), values.data(), words.size() * sizeof(float));
    return words;
}

inline const NamedOperation kStepOperations[] = {
    {"embed",
     [](Bench b) {
         b.m.embed(b.tokens, b.in(b.s.outputs * b.s.inputs), b.out(b.s.rows() * b.s.inputs), b.s.inputs);
         return b.results();
     }},
    {"embed_back",
     [](Bench b) {
         b.m.embed_back(b.tokens, b.in(b.s.rows() * b.s.inputs), b.out(b.s.outputs * b.s.inputs), b.s.outputs,
                        b.s.inputs);
         return b.results();
     }},
    {"linear",
     [](Bench b) {
         const float* const x = b.in(b.s.rows() * b.s.inputs);
         const float* const w = b.in(b.s.outputs * b.s.inputs);
         float* const sum = b.inout(b.draw.numbers(static_cast<size_t>(b.s.rows() * b.s.outputs)));
         b.m.linear(x, w, nullptr, b.out(b.s.rows() * b.s.outputs), b.s.rows(), b.s.inputs, b.s.outputs);
         b.m.linear(x, w, sum, sum, b.s.rows(), b.s.inputs, b.s.outputs);
         return b.results();
     }},
    {"linear_back",
     [](Bench b) { // K is the longer one here, as it is in linear
         b.m.linear_back(b.in(b.s.rows() * b.s.inputs), b.in(b.s.outputs * b.s.inputs), b.out(b.s.rows() * b.s.outputs),
                         b.s.rows(), b.s.outputs, b.s.inputs);
         return b.results();
     }},
    {"linear_weights",
     [](Bench b) {
         b.m.linear_weights(b.in(b.s.rows() * b.s.outputs), b.in(b.s.rows() * b.s.inputs),
                            b.out(b.s.outputs * b.s.inputs), b.s.sequences, b.s.context, b.s.inputs, b.s.outputs);
         return b.results();
     }},
    {"norm",
     [](Bench b) {
         const float* const x = b.in(b.s.rows() * b.s.inputs);
         const float* const gain = b.in(b.s.inputs);
         const float* const dy = b.in(b.s.rows() * b.s.inputs);
         float* const factors = b.out(b.s.rows());
         b.m.norm(x, gain, b.out(b.s.rows() * b.s.inputs), factors, b.s.rows(), b.s.inputs);
         b.m.norm_back(x, gain, factors, dy, b.inout(b.draw.numbers(static_cast<size_t>(b.s.rows() * b.s.inputs))),
                       b.s.rows(), b.s.inputs);
         b.m.norm_gain(x, factors, dy, b.out(b.s.inputs), b.s.sequences, b.s.context, b.s.inputs);
         return b.results();
     }},
    {"rotate",
     [](Bench b) {
         const float* const table = b.in(b.s.context * b.s.head_width);
         for (const bool back : {false, true})
             b.m.rotate(b.inout(b.draw.numbers(static_cast<size_t>(b.s.rows() * 3 * b.s.model().width))), table,
                        b.s.sequences, b.s.context, b.s.model(), back);
         return b.results();
     }},
    {"attend",
     [](Bench b) {
         const Model model = b.s.model();
         const float* const qkv = b.in(b.s.rows() * 3 * model.width);
         float* const o = b.out(b.s.rows() * model.width);
         const Owned<RowStatistics> rows = b.m.statistics(static_cast<size_t>(b.s.rows() * b.s.heads));
         b.m.attend(qkv, o, rows.get(), b.s.sequences, b.s.context, model);
         b.m.attend_back(qkv, o, rows.get(), b.in(b.s.rows() * model.width), b.out(b.s.rows() * 3 * model.width),
                         b.s.sequences, b.s.context, model);
         return b.results();
     }},
    {"swiglu",
     [](Bench b) {
         const float* const gate_up = b.in(b.s.rows() * 2 * b.s.inputs);
         b.m.swiglu(gate_up, b.out(b.s.rows() * b.s.inputs), b.s.rows(), b.s.inputs);
         b.m.swiglu_back(gate_up, b.in(b.s.rows() * b.s.inputs), b.out(b.s.rows() * 2 * b.s.inputs), b.s.rows(),
                         b.s.inputs);
         return b.results();
     }},
    {"cross_entropy",
     [](Bench b) {
         Floats logits = b.draw.numbers(static_cast<size_t>(b.s.rows() * b.s.outputs));
         for (float& z : logits) z = std::fabs(z) > 100 ? z * 0x1p-12f : z; // up to 2^20
         const Floats losses =
             of_doubles(b.m.cross_entropy(b.inout(logits), b.tokens, b.s.outputs, 1 / static_cast<float>(b.s.rows())));
         Floats all = b.results();
         all.insert(all.end(), losses.begin(), losses.end());
         return all;
     }},
    {"adamw",
     [](Bench b) {
         const auto count = static_cast<size_t>(b.s.inputs * b.s.outputs);
         float* const p = b.inout(b.draw.numbers(count));
         float* const m = b.inout(b.draw.numbers(count));
         Floats squares = b.draw.numbers(count);
         for (float& v : squares) v = std::fabs(v);
         b.m.adamw(p, b.in(b.s.inputs * b.s.outputs), m, b.inout(squares), count, adam_of({}, 7, 0.75f));
         b.m.add(p, m, count);
         return b.results();
     }},
    {"squares",
     [](Bench b) {
         Floats sums(static_cast<size_t>(b.s.outputs / 9 + 1));
         const size_t count = sums.size() * kSegment;
         b.m.squares(b.in(static_cast<int64_t>(count)), count, sums.data());
         return sums;
     }},
};

} // namespace hw4::step
