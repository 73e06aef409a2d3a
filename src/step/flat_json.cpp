#include "src/step/flat_json.h"

#include <algorithm>

#include "src/base/error.h"

namespace hw4::step {
namespace {

class Text {
public:
    Text(const std::string& path, const std::string& text) : path_(path), text_(text) {}

    FlatJson all() {
        object("");
        skip_blanks();
        if (at_ != text_.size()) refuse("more than one object");
        return std::move(found_);
    }

private:
    [[noreturn]] void refuse(const std::string& got) const {
        throw Error(ExitCode::bad_data, path_ + ": no header of a checkpoint: " + got + " at byte " +
                                            std::to_string(at_) + " of the header");
    }

    void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

    bool next_is(char wanted) {
        skip_blanks();
        if (at_ == text_.size() || text_[at_] != wanted) return false;
        ++at_;
        return true;
    }
    void expect(char wanted) {
        if (!next_is(wanted)) refuse(std::string("no '") + wanted + "'");
    }

    std::string string() {
        expect('"');
        const std::string found = text_.substr(at_, text_.find('"', at_) - at_);
        if (at_ + found.size() == text_.size()) refuse("a string without an end");
        if (std::any_of(found.begin(), found.end(), [](char c) { return c == '\\' || (c >= 0 && c < ' '); }))
            refuse("a string with an escape");
        at_ += found.size() + 1;
        return found;
    }

    std::string list() {
        std::string found;
        do {
            skip_blanks();
            const size_t digits = std::min(text_.find_first_not_of("0123456789", at_), text_.size()) - at_;
            if (digits == 0) refuse("no whole number");
            found += (found.empty() ? "[" : ",") + text_.substr(at_, digits);
            at_ += digits;
        } while (next_is(','));
        expect(']');
        return found + "]";
    }

    void object(const std::string& before) {
        expect('{');
        if (next_is('}')) return;
        do {
            const std::string name = before + string();
            expect(':');
            skip_blanks();
            if (!found_.emplace(name, "{}").second) refuse("a key for the second time");
            if (text_.compare(at_, 1, "{") == 0 && before.empty()) // and no deeper
                object(name + kWithin);
            else
                found_[name] = next_is('[') ? list() : '"' + string() + '"';
        } while (next_is(','));
        expect('}');
    }

    const std::string& path_;
    const std::string& text_;
    size_t at_ = 0;
    FlatJson found_;
};

} // namespace

FlatJson flat_json(const std::string& path, const std::string& text) { return Text(path, text).all(); }

} // namespace hw4::step
