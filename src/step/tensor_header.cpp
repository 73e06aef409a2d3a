#include "src/step/tensor_header.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/base/error.h"
#include "src/base/numbers.h"

namespace hw4::step {
namespace {

class HeaderText {
public:
    HeaderText(const std::string& path, const std::string& text) : path_(path), text_(text) {}

    TensorHeader header() {
        TensorHeader header;
        bool metadata = false;
        members([&](const std::string& name) {
            if (name != "__metadata__") {
                if (!header.tensors.emplace(name, tensor()).second) refuse("the tensor " + name + " a second time");
            } else if (!std::exchange(metadata, true))
                members([&](const std::string& key) {
                    if (!header.metadata.emplace(key, string()).second) refuse("'" + key + "' a second time");
                });
            else
                refuse("__metadata__ a second time");
        });
        skip_blanks();
        if (at_ != text_.size()) refuse("more than one object");
        return header;
    }

private:
    [[noreturn]] void refuse(const std::string& got) const {
        throw Error(ExitCode::bad_data, path_ + ": no header of safetensors: " + got + " at byte " +
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
        const size_t begin = at_;
        const size_t end = text_.find('"', begin);
        if (end == std::string::npos) refuse("a string without an end");
        const std::string found = text_.substr(begin, end - begin);
        if (std::any_of(found.begin(), found.end(), [](char c) { return c == '\\' || (c >= 0 && c < ' '); }))
            refuse("a string with an escape");
        at_ = end + 1;
        return found;
    }

    int64_t number() {
        skip_blanks();
        const size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
        const auto value = whole_number(std::string_view(text_).substr(at_, end - at_), 0, INT64_MAX);
        if (!value) refuse("no whole number");
        at_ = end;
        return *value;
    }

    // {"key": value, ...}: `take` takes each value.
    template <class Take>
    void members(const Take& take) {
        expect('{');
        if (next_is('}')) return;
        do {
            const std::string key = string();
            expect(':');
            take(key);
        } while (next_is(','));
        expect('}');
    }

    std::vector<int64_t> numbers() {
        std::vector<int64_t> found;
        expect('[');
        if (next_is(']')) return found;
        do found.push_back(number());
        while (next_is(','));
        expect(']');
        return found;
    }

    StoredTensor tensor() {
        StoredTensor tensor;
        std::vector<int64_t> place;
        members([&](const std::string& key) {
            if (key == "dtype" && tensor.element.empty())
                tensor.element = string();
            else if (key == "shape" && tensor.shape.empty())
                tensor.shape = numbers();
            else if (key == "data_offsets" && place.empty())
                place = numbers();
            else
                refuse("'" + key + "'");
        });
        if (place.size() != 2 || place[0] > place[1]) refuse("a tensor without a place");
        tensor.begin = static_cast<uint64_t>(place[0]);
        tensor.end = static_cast<uint64_t>(place[1]);
        return tensor;
    }

    const std::string& path_;
    const std::string& text_;
    size_t at_ = 0;
};

} // namespace

TensorHeader parse_tensor_header(const std::string& path, const std::string& text) {
    return HeaderText(path, text).header();
}

} // namespace hw4::step
