// Names from outside are bytes. Most are UTF-8, but none has to be.
#pragma once

#include <cstddef>
#include <string>

namespace hw4 {

struct Utf8Character {
    char32_t code; // or a byte that begins none
    size_t size;   // in bytes
    bool valid;
};

// What is at this place of the text: a character, or where none begins one byte. As strict as the standard: the
// shortest form, no surrogates, nothing above U+10FFFF.
inline Utf8Character utf8_at(const std::string& text, size_t at) {
    const auto byte = [&](size_t place) -> char32_t {
        return place < text.size() ? static_cast<unsigned char>(text[place]) : 0; // which continues nothing
    };
    constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000}; // in so many bytes
    const char32_t first = byte(at);
    if (first < 0x80) return {first, 1, true};
    const size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    char32_t code = first & (0x7fu >> size);
    bool valid = first >= 0xc0 && first < 0xf8;
    for (size_t i = 1; i < size; ++i) {
        valid = valid && (byte(at + i) & 0xc0) == 0x80;
        code = code << 6 | (byte(at + i) & 0x3f);
    }
    valid = valid && code >= kLeast[size] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return valid ? Utf8Character{code, size, true} : Utf8Character{first, 1, false};
}

} // namespace hw4
