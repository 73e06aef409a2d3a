// Values of options that the command lines of hw4 bench share. Errors are thrown as Error (usage).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/commands/options.h"

namespace hw4::bench {

// "4096", "4k", "2m", "1g": k is 1024, m 1024 k, g 1024 m. Nothing for other texts and numbers outside `least` to
// `most`.
std::optional<int64_t> sized_number(const std::string& text, int64_t least, int64_t most);

// Refuses a value with an unknown name `word`.
[[noreturn]] void refuse_name(const char* option, const std::string& text, const std::string& word,
                              const std::vector<std::string>& names);

// Numbers and ranges with commas between them, up to a thousand. A range is A..B*F, each F times the one before, up to
// B; A..B is A..B*2.
std::vector<int64_t> parse_numbers(const char* option, const std::string& text, int64_t least, int64_t most);
std::string parse_json_name(const std::string& name);
std::string parse_pickle_name(const std::string& name);
std::vector<bool> parse_yes_or_no(const char* option, const char* text); // or both; without a text yes
std::vector<int> parse_warmups(const std::string& text);
double parse_seconds(const std::string& text);

// The elements of `all` that the text names, with commas between them.
template <class List, class Name>
auto parse_list(const char* option, const std::string& text, const List& all, const Name& name) {
    std::vector<decltype(&*std::begin(all))> found;
    for (const std::string& word : split(text, ',')) {
        const auto one =
            std::find_if(std::begin(all), std::end(all), [&](const auto& value) { return word == name(value); });
        if (one == std::end(all)) {
            std::vector<std::string> names;
            for (const auto& value : all) names.emplace_back(name(value));
            refuse_name(option, text, word, names);
        }
        found.push_back(&*one);
    }
    return found;
}
template <class Value, size_t kCount>
std::vector<Value> parse_named(const char* option, const std::string& text, const Value (&all)[kCount]) {
    std::vector<Value> values;
    for (const Value* const one : parse_list(option, text, all, [](Value value) { return name_of(value); }))
        values.push_back(*one);
    return values;
}
template <class Preset>
std::vector<const Preset*> parse_presets(const char* option, const std::string& text, const std::vector<Preset>& all) {
    return parse_list(option, text, all, [](const Preset& preset) { return preset.name; });
}

template <class Preset>
const Preset* parse_preset(const std::string& text, const std::vector<Preset>& all) {
    const std::vector<const Preset*> found = parse_presets("preset", text, all);
    if (found.size() > 1) refuse_value("preset", text, "one name");
    return found.front();
}

bool ends_in(const std::string& name, const std::string& ending);

} // namespace hw4::bench
