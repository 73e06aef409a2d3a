// JSON: text, numbers and objects to be written, and what is read back.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hw4 {

// A JSON string, in ASCII alone. Names of files are bytes; those that are no UTF-8 become lone surrogates, U+DC80 to
// U+DCFF, so that json.loads() of Python gives a name as its os.fsdecode() does, and os.fsencode() the bytes.
std::string json_string(const std::string& text);

std::string json_number(double x);

// An object of several lines, moved to the right but for its first. Line breaks in strings are none in JSON.
inline std::string indented(std::string value) {
    for (size_t at = 0; (at = value.find('\n', at)) != std::string::npos; at += 3) value.insert(at + 1, "  ");
    return value;
}

class JsonFields {
public:
    void add(const std::string& name, const std::string& value) {
        text_ += (text_.empty() ? "  " : ",\n  ") + json_string(name) + ": " + value;
    }
    void add(const std::string& name, int64_t value) { add(name, std::to_string(value)); }
    void add_size(const std::string& name, size_t value) { add(name, std::to_string(value)); }
    void add_nested(const std::string& name, const std::string& value) { add(name, indented(value)); }

    std::string text() const { return text_.empty() ? "{}" : "{\n" + text_ + "\n}"; }

private:
    std::string text_;
};

// ---- Read back: what this program has written, and files like it

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
    // The number of an object's field; where it has no such field, or of another kind, `otherwise`.
    double number_of(const std::string& name, double otherwise) const;
};

// Throws Error (bad_data) that begins with `name`, of a file, and says where the text is no JSON.
JsonValue parse_json(const std::string& text, const std::string& name);

} // namespace hw4
