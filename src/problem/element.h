// The type of the numbers in a case file. All are computed with as float32: narrow ones are widened, which is exact,
// and results are rounded to nearest even.
#pragma once

#include <cstddef>
#include <limits>

#include "src/base/float_bits.h"

namespace hw4 {

enum class Element { float32, bf16, fp16 }; // in the order of their codes in a header
inline constexpr Element kEveryElement[] = {Element::float32, Element::bf16, Element::fp16};

constexpr const char* name_of(Element element) {
    return element == Element::float32 ? "float32" : element == Element::bf16 ? "bf16" : "fp16";
}

constexpr size_t bytes_of(Element element) { return element == Element::float32 ? 4 : 2; }

// The value of x after it was stored in the type.
inline float rounded_to(Element element, float x) {
    return element == Element::float32 ? x : element == Element::bf16 ? rounded_to_bf16(x) : rounded_to_fp16(x);
}

// The least magnitude that rounds to infinity.
constexpr float overflow_of(Element element) {
    return element == Element::float32 ? std::numeric_limits<float>::infinity()
           : element == Element::bf16  ? kBf16Overflow
                                       : kFp16Overflow;
}

// A number's bits, as stored.
inline uint32_t bits_of(Element element, float x) {
    return element == Element::float32 ? bits_of(x) : element == Element::bf16 ? bf16_bits(x) : fp16_bits(x);
}

// Many numbers at a time.
void widen(Element element, const void* from, size_t count, float* to);
// Stored numbers fill the end of the buffer of `count` floats and become floats in place.
void widen_at_end(Element element, float* room, size_t count);
// Rounds floats to the stored type; `to` may be `from`.
void narrow(Element element, const float* from, size_t count, void* to);
// Whether all stored numbers are finite.
bool are_finite(Element element, const void* stored, size_t count);
// Rounds floats to the type and keeps them as floats; `to` may be `from`.
void round_all(Element element, const float* from, size_t count, float* to);

} // namespace hw4
