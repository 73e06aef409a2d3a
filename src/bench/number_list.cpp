#include "src/bench/number_list.h"

#include <limits>
#include <string_view>

#include "src/base/numbers.h"

namespace hw4::bench {
namespace {

constexpr int64_t kUsualFactor = 2;

struct Range {
    int64_t first;
    int64_t last;
    int64_t step;
    bool multiplies;
};

// "1k..16k*2"
std::optional<Range> range_of(const std::string& text, int64_t least, int64_t most) {
    const size_t dots = text.find("..");
    if (dots == std::string::npos) return std::nullopt;
    const size_t sign = text.find_first_of("*+", dots);
    const std::string last_text = text.substr(dots + 2, sign == std::string::npos ? sign : sign - dots - 2);
    const auto first = sized_number(text.substr(0, dots), least, most);
    const auto last = sized_number(last_text, least, most);
    if (!first || !last || *last < *first) return std::nullopt;
    if (sign == std::string::npos) return Range{*first, *last, kUsualFactor, true};
    const bool multiplies = text[sign] == '*';
    const auto step = sized_number(text.substr(sign + 1), multiplies ? 2 : 1, most);
    if (!step || (multiplies && *first < 1)) return std::nullopt;
    return Range{*first, *last, *step, multiplies};
}

} // namespace

std::optional<int64_t> sized_number(const std::string& text, int64_t least, int64_t most) {
    if (text.empty()) return std::nullopt;
    constexpr std::string_view kLetters = "kKmMgG"; // each pair 1024 times the one before
    const size_t letter = kLetters.find(text.back());
    const int64_t unit = letter == std::string_view::npos ? 1 : int64_t{1} << 10 * (letter / 2 + 1);
    const auto count =
        whole_number(unit == 1 ? text : text.substr(0, text.size() - 1), 0, std::numeric_limits<int64_t>::max() / unit);
    if (!count || *count * unit < least || *count * unit > most) return std::nullopt;
    return *count * unit;
}

std::vector<std::string> split_at_commas(const std::string& text) {
    std::vector<std::string> words;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = text.find(',', at);
        words.push_back(text.substr(at, end == std::string::npos ? end : end - at));
        if (end == std::string::npos) break;
        at = end + 1;
    }
    return words;
}

std::optional<std::vector<int64_t>> number_list(const std::string& text, int64_t least, int64_t most) {
    std::vector<int64_t> numbers;
    for (const std::string& word : split_at_commas(text)) {
        const auto single = sized_number(word, least, most);
        const auto found = single ? Range{*single, *single, kUsualFactor, true} : range_of(word, least, most);
        if (!found) return std::nullopt;
        const auto [first, last, step, multiplies] = *found;
        for (int64_t number = first;;) {
            if (numbers.size() == kMostNumbers) return std::nullopt;
            numbers.push_back(number);
            if (multiplies ? number == 0 || number > last / step : number > last - step) break;
            number = multiplies ? number * step : number + step;
        }
    }
    return numbers;
}

} // namespace hw4::bench
