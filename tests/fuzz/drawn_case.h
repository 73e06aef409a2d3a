// A case that is determined by a seed: a problem, mostly small and often at a limit, and values of many kinds, always
// within the contract's domain. Every machine draws the same case.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "src/problem/problem.h"

namespace hw4::fuzz {

// A bijective mixer of 64 bits.
inline uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 32)) * 0xbea225f9eb34556du;
    z = (z ^ (z >> 29)) * 0x94d049bb133111ebu;
    return z ^ (z >> 32);
}

// Random numbers that are the same on every machine: integer arithmetic only, without the standard library.
class Random {
public:
    explicit Random(uint64_t seed) : state_(mixed(seed + 0x9e3779b97f4a7c15u)) {}

    uint64_t next() { return mixed(state_ += 0xd1342543de82ef95u); }

    // Both ends are included.
    int64_t within(int64_t least, int64_t most) {
        return least + static_cast<int64_t>(next() % static_cast<uint64_t>(most - least + 1));
    }

    bool one_in(int64_t n) { return within(1, n) == 1; }

    template <class T>
    T pick(std::initializer_list<T> list) {
        return list.begin()[within(0, static_cast<int64_t>(list.size()) - 1)];
    }

    // Returns a multiple of 2^-23 from -1 to 1.
    float signed_unit() { return static_cast<float>(within(-(1 << 23), 1 << 23)) * 0x1p-23f; }

private:
    uint64_t state_;
};

struct DrawnCase {
    explicit DrawnCase(uint64_t seed);

    std::string name() const; // describes the problem
    size_t output_floats() const { return static_cast<size_t>(problem.batches) * problem.batch_output_floats(); }
    float* batch(int64_t index) { return qkv.data() + static_cast<size_t>(index) * problem.batch_input_floats(); }
    const float* batch(int64_t index) const {
        return qkv.data() + static_cast<size_t>(index) * problem.batch_input_floats();
    }

    uint64_t seed;
    Problem problem;
    std::vector<float> qkv; // all inputs

private:
    void draw_batches(Random& random);
    void regroup(const Problem& regrouped);
    void add_gradients();
};

} // namespace hw4::fuzz
