// Random numbers that are the same on every machine: integer arithmetic only, without the standard library.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace hw4::fuzz {

// A bijective mixer of 64 bits.
inline uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 32)) * 0xbea225f9eb34556du;
    z = (z ^ (z >> 29)) * 0x94d049bb133111ebu;
    return z ^ (z >> 32);
}

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

} // namespace hw4::fuzz
