// The failure of a run: one line for the user and one of the exit codes that --help lists.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace hw4 {

// External names are bytes. Most are UTF-8, but none has to be.
struct Utf8Character {
    char32_t code; // or a byte that does not begin a character
    size_t size;   // in bytes
    bool valid;
};

// Decodes the text at this place: a character, or a single byte where no character begins. As strict as the standard:
// the shortest form, no surrogates, nothing above U+10FFFF.
inline Utf8Character utf8_at(const std::string& text, size_t at) {
    const auto byte = [&](size_t place) -> char32_t {
        return place < text.size() ? static_cast<unsigned char>(text[place]) : 0; // 0 does not continue a character
    };
    constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000}; // least code by the number of bytes
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

// The numbers are from sysexits.h, clear of what shells and signals use.
enum class ExitCode : int {
    ok = 0,
    usage = 64,
    bad_data = 65,
    no_input = 66,
    no_gpu = 69,
    internal = 70,
    out_of_memory = 71,
    cannot_create = 73,
    io_error = 74,
};

// Control characters, also in their 8-bit form; line and paragraph separators; embeddings, overrides and isolates,
// which change the direction of text.
inline bool steers_terminals(const Utf8Character& character) {
    const char32_t code = character.code;
    return !character.valid || code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

// \xe2\x80\xa8
inline std::string as_numbers(const std::string& bytes) {
    std::string numbers;
    for (const char c : bytes) {
        char number[8];
        std::snprintf(number, sizeof number, "\\x%02x", static_cast<unsigned char>(c));
        numbers += number;
    }
    return numbers;
}

// The same text in one line, for any external names: characters that could break the line or control the user's
// terminal, and bytes that are not text, become \x0a and the like, byte by byte.
inline std::string one_line(const std::string& text) {
    std::string line;
    for (size_t at = 0; at < text.size();) {
        const Utf8Character character = utf8_at(text, at);
        const std::string bytes = text.substr(at, character.size);
        line += steers_terminals(character) ? as_numbers(bytes) : bytes;
        at += character.size;
    }
    return line;
}

class Error : public std::runtime_error {
public:
    Error(ExitCode code, const std::string& message) : std::runtime_error(one_line(message)), code_(code) {}
    ExitCode code() const { return code_; }

private:
    ExitCode code_;
};

// "what: No such file or directory", for a failed system call.
inline std::string with_errno(const std::string& what) {
    std::array<char, 128> text{}; // strerror() shares its buffer among threads
    return what + ": " + ::strerror_r(errno, text.data(), text.size());
}

} // namespace hw4
