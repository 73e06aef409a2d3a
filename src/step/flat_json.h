// JSON as far as a checkpoint's header goes: objects, strings without escapes and lists of whole numbers, in any order
// of keys and with any white space. {"a": {"b": "c", "d": [1, 2]}} becomes a = {}, a/b = "c", a/d = [1,2].
#pragma once

#include <map>
#include <string>

namespace hw4::step {

constexpr char kWithin = '\n'; // between keys, since no key may have it: a/b above

using FlatJson = std::map<std::string, std::string>;

// Throws Error (bad_data) with the place where the text is something else.
FlatJson flat_json(const std::string& path, const std::string& text);

} // namespace hw4::step
