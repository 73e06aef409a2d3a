// JSON that is read back: what this program has written, and files like it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hw4 {

struct JsonValue {
    enum class Kind { null, boolean, number, string, list, object };

    Kind kind = Kind::null;
    bool boolean = false;
    double number = 0;
    std::string string;
    std::vector<JsonValue> list;
    std::vector<std::pair<std::string, JsonValue>> object; // in the order of the text

    // Null where it is no object or has no such field.
    const JsonValue* find(const std::string& name) const;

    bool is(Kind wanted) const { return kind == wanted; }
    // What the field of an object is; of another kind, or none, the value given.
    double number_of(const std::string& name, double otherwise) const;
    std::string string_of(const std::string& name, const std::string& otherwise) const;
    bool boolean_of(const std::string& name, bool otherwise) const;
};

// Throws Error (bad_data) that begins with `name`, of a file, and says where the text is no JSON.
JsonValue parse_json(const std::string& text, const std::string& name);

} // namespace hw4
