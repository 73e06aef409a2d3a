#include "src/problem/element.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace hw4 {
namespace {

constexpr size_t kBlock = 256; // the numbers read at a time, before any is overwritten

// Calls take(block, its numbers, numbers before it) for each block.
template <class Take>
void each_block(const void* numbers, size_t count, const Take& take) {
    const auto* const stored = static_cast<const unsigned char*>(numbers);
    uint16_t block[kBlock];
    for (size_t first = 0; first < count; first += kBlock) {
        const size_t taken = std::min(kBlock, count - first);
        std::memcpy(block, stored + first * sizeof(uint16_t), taken * sizeof(uint16_t));
        take(block, taken, first);
    }
}

template <class Value>
void widen_blocks(const void* stored, size_t count, float* to, Value value) {
    each_block(stored, count, [&](const uint16_t* block, size_t taken, size_t first) {
        for (size_t i = 0; i < taken; ++i) to[first + i] = value(block[i]);
    });
}

template <class Bits>
void narrow_blocks(const float* from, size_t count, unsigned char* to, Bits bits) {
    uint16_t block[kBlock];
    for (size_t first = 0; first < count; first += kBlock) {
        const size_t taken = std::min(kBlock, count - first);
        for (size_t i = 0; i < taken; ++i) block[i] = bits(from[first + i]);
        std::memcpy(to + first * sizeof(uint16_t), block, taken * sizeof(uint16_t));
    }
}

} // namespace

void widen(Element element, const void* from, size_t count, float* to) {
    switch (element) {
    case Element::float32: std::memmove(to, from, count * sizeof(float)); return;
    case Element::bf16: return widen_blocks(from, count, to, [](uint16_t bits) { return bf16_value(bits); });
    case Element::fp16: return widen_blocks(from, count, to, [](uint16_t bits) { return fp16_value(bits); });
    }
}

void widen_at_end(Element element, float* room, size_t count) {
    if (element == Element::float32) return;
    widen(element, reinterpret_cast<const unsigned char*>(room) + count * (sizeof(float) - sizeof(uint16_t)), count,
          room);
}

bool are_finite(Element element, const void* stored, size_t count) {
    if (element == Element::float32) {
        const auto* const x = static_cast<const float*>(stored);
        return std::all_of(x, x + count, [](float value) { return std::isfinite(value); });
    }
    const uint16_t infinity = element == Element::bf16 ? 0x7f80u : 0x7c00u;
    bool finite = true;
    each_block(stored, count, [&](const uint16_t* block, size_t taken, size_t) {
        for (size_t i = 0; i < taken; ++i) finite &= (block[i] & infinity) != infinity;
    });
    return finite;
}

void narrow(Element element, const float* from, size_t count, void* to) {
    auto* const bytes = static_cast<unsigned char*>(to);
    switch (element) {
    case Element::float32: std::memmove(to, from, count * sizeof(float)); return;
    case Element::bf16: return narrow_blocks(from, count, bytes, [](float x) { return bf16_bits(x); });
    case Element::fp16: return narrow_blocks(from, count, bytes, [](float x) { return fp16_bits(x); });
    }
}

void round_all(Element element, const float* from, size_t count, float* to) {
    const auto each = [&](auto rounded) { std::transform(from, from + count, to, rounded); };
    switch (element) {
    case Element::float32: return each([](float x) { return x; });
    case Element::bf16: return each([](float x) { return rounded_to_bf16(x); });
    case Element::fp16: return each([](float x) { return rounded_to_fp16(x); });
    }
}

} // namespace hw4
