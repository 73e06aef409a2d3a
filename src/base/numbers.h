// Numbers on a command line: the whole text is a number in range, or nothing is returned.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hw4 {

template <class Number>
std::optional<Number> number_in(std::string_view text, Number least, Number most) {
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool in_range = value >= least && value <= most; // false for "nan", a number to from_chars()
    if (error != std::errc{} || end != text.data() + text.size() || !in_range) return std::nullopt;
    return value;
}

inline std::optional<int64_t> whole_number(std::string_view text, int64_t least, int64_t most) {
    return number_in(text, least, most);
}

// "60", "3.5", "1e6".
inline std::optional<double> decimal_number(std::string_view text, double least, double most) {
    return number_in(text, least, most);
}

} // namespace hw4
