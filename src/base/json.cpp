#include "src/base/json.h"

#include <cstdio>

#include "src/base/error.h"

namespace hw4 {
namespace {

std::string json_escape(char32_t unit) {
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(unit & 0xffff));
    return escape;
}

} // namespace

std::string json_string(const std::string& text) {
    std::string out = "\"";
    for (size_t at = 0; at < text.size();) {
        const auto [code, size, valid] = utf8_at(text, at);
        at += size;
        if (code == '"' || code == '\\')
            (out += '\\') += static_cast<char>(code);
        else if (code >= 0x20 && code < 0x7f)
            out += static_cast<char>(code);
        else if (!valid)
            out += json_escape(0xdc00 + code);
        else if (code > 0xffff)
            out += json_escape(0xd7c0 + (code >> 10)) + json_escape(0xdc00 + (code & 0x3ff));
        else
            out += json_escape(code);
    }
    return out + "\"";
}

std::string json_number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", x);
    return text;
}

} // namespace hw4
