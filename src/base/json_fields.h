// Objects of JSON files, a field a line.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/json.h"

namespace hw4 {

class JsonFields {
public:
    void add(const std::string& name, const std::string& value) {
        text_ += (text_.empty() ? "  " : ",\n  ") + json_string(name) + ": " + value;
    }
    void add(const std::string& name, int64_t value) { add(name, std::to_string(value)); }
    void add_size(const std::string& name, size_t value) { add(name, std::to_string(value)); }
    // An object of several lines, which move to the right. Line breaks in strings are none in JSON.
    void add_nested(const std::string& name, std::string value) {
        for (size_t at = 0; (at = value.find('\n', at)) != std::string::npos; at += 3) value.insert(at + 1, "  ");
        add(name, value);
    }

    std::string text() const { return text_.empty() ? "{}" : "{\n" + text_ + "\n}"; }

private:
    std::string text_;
};

} // namespace hw4
