// Writes JSON: text, numbers and objects.
#pragma once

#include <cstdint>
#include <string>

namespace hw4 {

// A JSON string, in ASCII alone. File names are bytes; bytes that are not UTF-8 become lone surrogates, U+DC80 to
// U+DCFF, so that Python's json.loads() gives the same name as os.fsdecode(), and os.fsencode() gives the bytes.
std::string json_string(const std::string& text);

std::string json_number(double x);

// An object of several lines, indented except for its first line. JSON strings contain no line breaks.
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

} // namespace hw4
