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

// Spread numbers have every magnitude from denormals to 2^30; among zeros some are -0, and some are 1.
enum class Numbers { ordinary, spread, zeros };

// The same numbers on every machine, because only integers are drawn.
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
    int64_t inputs;  // also the width
    int64_t outputs; // hidden width, or vocabulary
    int64_t heads, head_width;

    int64_t rows() const { return sequences * context; }
    int64_t qkv() const { return rows() * 3 * heads * head_width; }
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

// A machine, and the operands of an operation in its memory. A seed draws the same numbers in any order of calls.
struct Bench : Shape {
    Bench(Machine& machine, const Shape& shape, Numbers numbers)
        : Shape(shape), m(machine), kind(numbers), tokens(drawn_tokens(shape)) {}

    Floats drawn(int64_t count, uint64_t seed) const { return Draw(kind, seed).numbers(static_cast<size_t>(count)); }
    const float* in(int64_t count, uint64_t seed) { return put(drawn(count, seed)); }
    // Memory that the operation must fill.
    float* out(int64_t count) { return inout(Floats(static_cast<size_t>(count), NAN)); }
    float* inout(const Floats& values) {
        written.emplace_back(put(values), values.size());
        return written.back().first;
    }
    float* put(const Floats& values) {
        memory.push_back(m.floats(values.size()));
        m.put(memory.back().get(), values.data(), values.size());
        return memory.back().get();
    }
    Floats results() const {
        Floats all;
        for (const auto& [at, count] : written) {
            all.resize(all.size() + count);
            m.get(all.data() + all.size() - count, at, count);
        }
        return all;
    }

    Machine& m;
    Numbers kind;
    Tokens tokens;
    int64_t x = rows() * inputs, y = rows() * outputs, w = inputs * outputs; // element counts
    std::vector<Owned<float>> memory;
    std::vector<std::pair<float*, size_t>> written;
};

struct NamedOperation {
    const char* name;
    void (*run)(Bench& b);

    Floats results(Machine& machine, const Shape& shape, Numbers kind) const {
        Bench bench(machine, shape, kind);
        run(bench);
        return bench.results();
    }
};

// All bits of doubles, 16 bits per float.
inline Floats of_doubles(const std::vector<double>& values) {
    Floats parts;
    for (const double value : values) {
        uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        for (int shift = 0; shift < 64; shift += 16) parts.push_back(static_cast<float>(bits >> shift & 0xffff));
    }
    return parts;
}

inline const NamedOperation kStepOperations[] = {
    {"embed", [](Bench& b) { b.m.embed(b.tokens, b.in(b.w, 1), b.out(b.x), b.inputs); }},
    {"embed_back", [](Bench& b) { b.m.embed_back(b.tokens, b.in(b.x, 1), b.out(b.w), b.outputs, b.inputs); }},
    {"linear",
     [](Bench& b) {
         float* const sum = b.inout(b.drawn(b.y, 3));
         b.m.linear(b.in(b.x, 1), b.in(b.w, 2), nullptr, b.out(b.y), b.rows(), b.inputs, b.outputs);
         b.m.linear(b.in(b.x, 1), b.in(b.w, 2), sum, sum, b.rows(), b.inputs, b.outputs);
     }},
    {"linear_back", // sums over the inputs of linear, which are more
     [](Bench& b) { b.m.linear_back(b.in(b.x, 1), b.in(b.w, 2), b.out(b.y), b.rows(), b.outputs, b.inputs); }},
    {"linear_weights",
     [](Bench& b) {
         b.m.linear_weights(b.in(b.y, 1), b.in(b.x, 2), b.out(b.w), b.sequences, b.context, b.inputs, b.outputs);
     }},
    {"norm",
     [](Bench& b) {
         const float* const x = b.in(b.x, 1);
         const float* const gain = b.in(b.inputs, 2);
         const float* const dy = b.in(b.x, 3);
         float* const factors = b.out(b.rows());
         b.m.norm(x, gain, b.out(b.x), factors, b.rows(), b.inputs);
         b.m.norm_back(x, gain, factors, dy, b.inout(b.drawn(b.x, 4)), b.rows(), b.inputs);
         b.m.norm_gain(x, factors, dy, b.out(b.inputs), b.sequences, b.context, b.inputs);
     }},
    {"rotate",
     [](Bench& b) {
         const float* const table = b.in(b.context * b.head_width, 1);
         for (const bool back : {false, true})
             b.m.rotate(b.inout(b.drawn(b.qkv(), 2)), table, b.sequences, b.context, b.model(), back);
     }},
    {"attend",
     [](Bench& b) {
         const Owned<RowStatistics> rows = b.m.statistics(static_cast<size_t>(b.rows() * b.heads));
         float* const o = b.out(b.qkv() / 3);
         b.m.attend(b.in(b.qkv(), 1), o, rows.get(), b.sequences, b.context, b.model());
         b.m.attend_back(b.in(b.qkv(), 1), o, rows.get(), b.in(b.qkv() / 3, 2), b.out(b.qkv()), b.sequences, b.context,
                         b.model());
     }},
    {"swiglu",
     [](Bench& b) {
         b.m.swiglu(b.in(2 * b.x, 1), b.out(b.x), b.rows(), b.inputs);
         b.m.swiglu_back(b.in(2 * b.x, 1), b.in(b.x, 2), b.out(2 * b.x), b.rows(), b.inputs);
     }},
    {"cross_entropy",
     [](Bench& b) {
         Floats logits = b.drawn(b.y, 1);
         for (float& z : logits) z = std::fabs(z) > 100 ? z * 0x1p-12f : z; // up to 2^20
         const float share = 1 / static_cast<float>(b.rows());
         b.inout(of_doubles(b.m.cross_entropy(b.inout(logits), b.tokens, b.outputs, share)));
     }},
    {"adamw",
     [](Bench& b) {
         Floats squares = b.drawn(b.w, 4);
         for (float& v : squares) v = std::fabs(v);
         float* const p = b.inout(b.drawn(b.w, 1));
         float* const m = b.inout(b.drawn(b.w, 2));
         b.m.adamw(p, b.in(b.w, 3), m, b.inout(squares), squares.size(), adam_of({}, 1e-3, 7, 0.75f));
         b.m.add(p, m, squares.size());
     }},
    {"squares",
     [](Bench& b) {
         Floats sums(static_cast<size_t>(b.outputs / 9 + 1));
         const size_t count = sums.size() * kSegment;
         b.m.squares(b.in(static_cast<int64_t>(count), 1), count, sums.data());
         b.inout(sums);
     }},
};

} // namespace hw4::step
