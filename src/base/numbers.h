// Whole numbers on a command line: all of the text, in range, or nothing.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hw4 {

inline std::optional<int64_t> whole_number(std::string_view text, int64_t least, int64_t most) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) return std::nullopt;
    return value;
}

} // namespace hw4
