#include "src/problem/element.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace hw4 {
namespace {

constexpr size_t kBlock = 256; // numbers that are taken out of a room before others are put there

template <class Value>
void widen_blocks(float* room, size_t count, Value value) {
    const auto* const stored =
        reinterpret_cast<const unsigned char*>(room) + count * (sizeof(float) - sizeof(uint16_t));
    uint16_t block[kBlock];
    for (size_t first = 0; first < count; first += kBlock) {
        const size_t taken = std::min(kBlock, count - first);
        std::memcpy(block, stored + first * sizeof(uint16_t), taken * sizeof(uint16_t));
        for (size_t i = 0; i < taken; ++i) room[first + i] = value(block[i]);
    }
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

void widen_at_end(Element element, float* room, size_t count) {
    switch (element) {
    case Element::float32: return;
    case Element::bf16: return widen_blocks(room, count, bf16_value);
    case Element::fp16: return widen_blocks(room, count, fp16_value);
    }
}

bool holds(Element element, const float* x, size_t count) {
    const float limit = overflow_of(element);
    return std::all_of(x, x + count, [&](float value) { return std::fabs(value) < limit; });
}

void narrow(Element element, const float* from, size_t count, void* to) {
    auto* const bytes = static_cast<unsigned char*>(to);
    switch (element) {
    case Element::float32: std::memmove(to, from, count * sizeof(float)); return;
    case Element::bf16: return narrow_blocks(from, count, bytes, bf16_bits);
    case Element::fp16: return narrow_blocks(from, count, bytes, fp16_bits);
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
