#include "src/commands/bench_values.h"

#include <limits>
#include <string_view>

#include "src/base/error.h"
#include "src/base/numbers.h"
#include "src/base/standard_streams.h"
#include "src/bench/cell.h"

namespace hw4::bench {
namespace {

constexpr double kMostSeconds = 1e6;
constexpr size_t kMostNumbers = 1000;

// Appends "4k", or "1k..16k*2": numbers up to the last, each the factor (default 2) times the one before. False if the
// word is neither, or has more than kMostNumbers numbers.
bool append_numbers(std::vector<int64_t>& numbers, const std::string& word, int64_t least, int64_t most) {
    const size_t dots = std::min(word.find(".."), word.size());
    const size_t sign = std::min(word.find('*', dots), word.size());
    const auto first = sized_number(word.substr(0, dots), least, most);
    const auto last = dots == word.size() ? first : sized_number(word.substr(dots + 2, sign - dots - 2), least, most);
    const auto factor = sign == word.size() ? 2 : sized_number(word.substr(sign + 1), 2, most);
    if (!first || !last || !factor || *last < *first) return false;
    for (int64_t number = *first;; number *= *factor) {
        if (numbers.size() == kMostNumbers) return false;
        numbers.push_back(number);
        if (number == 0 || number > *last / *factor) return true;
    }
}

} // namespace

std::optional<int64_t> sized_number(const std::string& text, int64_t least, int64_t most) {
    if (text.empty()) return std::nullopt;
    constexpr std::string_view kLetters = "kKmMgG"; // each pair is 1024 times the one before
    const size_t letter = kLetters.find(text.back());
    const int64_t unit = letter == std::string_view::npos ? 1 : int64_t{1} << 10 * (letter / 2 + 1);
    const auto count =
        whole_number(unit == 1 ? text : text.substr(0, text.size() - 1), 0, std::numeric_limits<int64_t>::max() / unit);
    if (!count || *count * unit < least || *count * unit > most) return std::nullopt;
    return *count * unit;
}

void refuse_name(const char* option, const std::string& text, const std::string& word,
                 const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    refuse_value(option, text, "some of " + list + did_you_mean(word, names));
}

std::vector<int64_t> parse_numbers(const char* option, const std::string& text, int64_t least, int64_t most) {
    std::vector<int64_t> numbers;
    for (const std::string& word : split(text, ','))
        if (!append_numbers(numbers, word, least, most))
            refuse_value(option, text,
                         "whole numbers from " + std::to_string(least) + " to " + std::to_string(most) +
                             ", such as 512,1k..16k*2");
    return numbers;
}

// Refuses the names that lab5.py refuses.
std::string parse_json_name(const std::string& name) {
    if (!ends_in(name, ".json") && !is_standard_stream(name))
        refuse_value("output", name, "a name that ends in .json, or -");
    return name;
}

std::string parse_pickle_name(const std::string& name) {
    if (!ends_in(name, ".pickle")) refuse_value("memory", name, "a name that ends in .pickle");
    return name;
}

std::vector<bool> parse_yes_or_no(const char* option, const char* text) {
    const std::string word = text == nullptr ? "yes" : text;
    if (word == "yes") return {true};
    if (word == "no") return {false};
    if (word == "both") return {false, true};
    refuse_value(option, word, "yes, no or both, after =");
}

std::vector<int> parse_warmups(const std::string& text) {
    std::vector<int> warmups;
    for (const int64_t number : parse_numbers("warmup", text, 0, kMostRepeats))
        warmups.push_back(static_cast<int>(number));
    return warmups;
}

double parse_seconds(const std::string& text) {
    const auto seconds = decimal_number(text, 0, kMostSeconds);
    if (!seconds) refuse_value("limit", text, "seconds, from 0 to 1e6");
    return *seconds;
}

bool ends_in(const std::string& name, const std::string& ending) {
    return name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
}

} // namespace hw4::bench
