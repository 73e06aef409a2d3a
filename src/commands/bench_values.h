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

// For a value with an unknown name `word`. `need`: "one of " or "some of ".
[[noreturn]] void refuse_name(const char* option, const std::string& text, const std::string& word, const char* need,
                              const std::vector<std::string>& names);

// Numbers and ranges with commas between them, up to a thousand. A range is A..B*F, each F times the one before, up to
// B; A..B is A..B*2.
std::vector<int64_t> parse_numbers(const char* option, const std::string& text, int64_t least, int64_t most);
std::string parse_json_name(const std::string& name);
std::string parse_pickle_name(const std::string& name);
std::vector<bool> parse_yes_or_no(const char* option, const char* text); // or both; without a text yes
std::vector<int> parse_warmups(const std::string& text);
double parse_seconds(const std::string& text);

// The elements of `all` with names in the list.
template <class Value, size_t kCount>
std::vector<Value> parse_named(const char* option, const std::string& text, const Value (&all)[kCount]) {
    std::vector<Value> values;
    for (const std::string& word : split(text, ',')) {
        const Value* const found = std::find_if(all, all + kCount, [&](Value value) { return word == name_of(value); });
        if (found == all + kCount) {
            std::vector<std::string> names;
            for (const Value value : all) names.emplace_back(name_of(value));
            refuse_name(option, text, word, "some of ", names);
        }
        values.push_back(*found);
    }
    return values;
}

bool ends_in(const std::string& name, const std::string& ending);

} // namespace hw4::bench
