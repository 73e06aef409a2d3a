#include "src/base/json.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "src/base/error.h"

namespace hw4 {
namespace {

std::string json_escape(char32_t unit) {
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(unit & 0xffff));
    return escape;
}

constexpr int kDeepest = 64; // lists and objects within one another

class Parser {
public:
    Parser(const std::string& text, const std::string& name) : text_(text), name_(name) {}

    JsonValue whole() {
        JsonValue value = read(0);
        skip_blanks();
        if (at_ != text_.size()) fail("the end");
        return value;
    }

private:
    [[noreturn]] void fail(const std::string& wanted) const {
        throw Error(ExitCode::bad_data, name_ + ": no JSON: need " + wanted + " at byte " + std::to_string(at_) +
                                            " of " + std::to_string(text_.size()));
    }

    void skip_blanks() {
        while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
    }
    bool take(char wanted) {
        skip_blanks();
        if (at_ == text_.size() || text_[at_] != wanted) return false;
        ++at_;
        return true;
    }
    void need(char wanted) {
        if (!take(wanted)) fail(std::string("'") + wanted + "'");
    }
    bool take_word(const char* word) {
        if (text_.compare(at_, std::strlen(word), word) != 0) return false;
        at_ += std::strlen(word);
        return true;
    }

    // NOLINTBEGIN(misc-no-recursion): kDeepest bounds it
    JsonValue read(int depth) {
        if (depth > kDeepest) fail("less depth");
        skip_blanks();
        JsonValue value;
        if (at_ == text_.size()) fail("a value");
        const char first = text_[at_];
        if (first == '{') return read_object(depth);
        if (first == '[') return read_list(depth);
        if (first == '"') {
            value.kind = JsonValue::Kind::string;
            value.string = read_string();
        } else if (first == '-' || (first >= '0' && first <= '9')) {
            value.kind = JsonValue::Kind::number;
            value.number = read_number();
        } else if (take_word("true")) {
            value.kind = JsonValue::Kind::boolean;
            value.boolean = true;
        } else if (take_word("false")) {
            value.kind = JsonValue::Kind::boolean;
        } else if (!take_word("null")) {
            fail("a value");
        }
        return value;
    }

    JsonValue read_object(int depth) {
        JsonValue value;
        value.kind = JsonValue::Kind::object;
        need('{');
        if (take('}')) return value;
        do {
            skip_blanks();
            std::string name = read_string();
            need(':');
            value.object.emplace_back(std::move(name), read(depth + 1));
        } while (take(','));
        need('}');
        return value;
    }

    JsonValue read_list(int depth) {
        JsonValue value;
        value.kind = JsonValue::Kind::list;
        need('[');
        if (take(']')) return value;
        do value.list.push_back(read(depth + 1));
        while (take(','));
        need(']');
        return value;
    }
    // NOLINTEND(misc-no-recursion)

    double read_number() {
        double number = 0;
        const char* const first = text_.data() + at_;
        const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), number);
        if (error != std::errc{}) fail("a number");
        at_ += static_cast<size_t>(end - first);
        return number;
    }

    // Characters beyond ASCII stay as they are written: names that this program writes are compared, not shown.
    std::string read_string() {
        need('"');
        std::string string;
        for (;; ++at_) {
            if (at_ == text_.size() || static_cast<unsigned char>(text_[at_]) < 0x20) fail("the end of a string");
            if (text_[at_] == '"') break;
            if (text_[at_] == '\\') {
                ++at_;
                string += read_escape();
            } else {
                string += text_[at_];
            }
        }
        ++at_;
        return string;
    }

    std::string read_escape() {
        constexpr const char* kLetters = "\"\\/bfnrt";
        constexpr const char* kMeanings = "\"\\/\b\f\n\r\t";
        if (at_ == text_.size()) fail("an escape");
        const char letter = text_[at_];
        if (letter == 'u') return read_code();
        const char* const known = std::strchr(kLetters, letter);
        if (known == nullptr || letter == '\0') fail("an escape");
        return {kMeanings[known - kLetters]};
    }

    std::string read_code() {
        unsigned code = 0;
        const char* const first = text_.data() + at_ + 1;
        if (text_.size() - at_ < 5) fail("four hexadecimal digits");
        const auto [end, error] = std::from_chars(first, first + 4, code, 16);
        if (error != std::errc{} || end != first + 4) fail("four hexadecimal digits");
        const std::string escape = "\\u" + std::string(first, 4);
        at_ += 4;
        return code < 0x80 ? std::string(1, static_cast<char>(code)) : escape;
    }

    const std::string& text_;
    const std::string& name_;
    size_t at_ = 0;
};

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

const JsonValue* JsonValue::find(const std::string& name) const {
    for (const auto& [field, value] : object)
        if (field == name) return &value;
    return nullptr;
}

double JsonValue::number_of(const std::string& name, double otherwise) const {
    const JsonValue* const field = find(name);
    return field != nullptr && field->is(Kind::number) ? field->number : otherwise;
}

JsonValue parse_json(const std::string& text, const std::string& name) { return Parser(text, name).whole(); }

} // namespace hw4
