// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011), a counter generator: each block of four numbers follows from a
// counter and a key alone, so any thread or rank draws any block in any order. The seed is the key. The last two words
// of the counter say what is drawn:
//   (pair, pair's high half, place of the tensor, attempt)   two initial weights (weights.h)
//   (sequence, its high half, kForSequences, 0)              where a sequence begins (tokens.h)
//   (index, its high half, kForPatterns, 0)                  tokens of testcases/generate
#pragma once

#include <array>
#include <cstdint>

namespace hw4::step {

using PhiloxBlock = std::array<uint32_t, 4>;

constexpr uint32_t kForSequences = 0xffffffff; // no model has so many tensors
constexpr uint32_t kForPatterns = 0xfffffffe;

inline PhiloxBlock philox(PhiloxBlock counter, uint64_t key) {
    auto low = static_cast<uint32_t>(key);
    auto high = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = uint64_t{0xd2511f53} * counter[0];
        const uint64_t b = uint64_t{0xcd9e8d57} * counter[2];
        counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<uint32_t>(b),
                   static_cast<uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<uint32_t>(a)};
        low += 0x9e3779b9;
        high += 0xbb67ae85;
    }
    return counter;
}

inline PhiloxBlock philox(uint64_t seed, uint64_t index, uint32_t what, uint32_t attempt) {
    return philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), what, attempt}, seed);
}

// Two of the words as one number.
inline uint64_t wide(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

// A number below `limit`: the high half of a product with 64 drawn bits.
inline uint64_t below(uint64_t limit, uint64_t drawn) {
    __extension__ using Product = unsigned __int128;
    return static_cast<uint64_t>(Product{limit} * drawn >> 64);
}

} // namespace hw4::step
