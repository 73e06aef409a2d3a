// Values in Python's pickle format, protocol 2, by nine of its opcodes: what pickle.load() reads, and any unpickler
// that knows no classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hw4 {

class Pickle {
public:
    // Below 2^63.
    void add(uint64_t number) {
        text_ += "\x8a\x08"; // LONG1
        add_bytes(number, 8);
    }
    // In UTF-8.
    void add(const std::string& text) {
        text_ += 'X'; // BINUNICODE
        add_bytes(text.size(), 4);
        text_ += text;
    }
    // `add_items` adds a string and a value for each item.
    template <class AddItems>
    void add_dict(const AddItems& add_items) {
        text_ += "}("; // EMPTY_DICT MARK
        add_items();
        text_ += 'u'; // SETITEMS
    }
    // `add_item(i)` adds the value at i.
    template <class AddItem>
    void add_list(size_t count, const AddItem& add_item) {
        text_ += ']'; // EMPTY_LIST
        add_to_list(count, add_item);
    }
    // More for a list that is there. In parts, since unpicklers in JavaScript hand each one over as arguments.
    template <class AddItem>
    void add_to_list(size_t count, const AddItem& add_item) {
        for (size_t i = 0; i < count; ++i) {
            if (i % kMostAtOnce == 0) text_ += '('; // MARK
            add_item(i);
            if (i % kMostAtOnce == kMostAtOnce - 1 || i == count - 1) text_ += 'e'; // APPENDS
        }
    }
    // A dictionary's item.
    template <class Value>
    void add(const char* name, const Value& value) {
        add(std::string(name));
        add(value);
    }

    const std::string& opcodes() const { return text_; }          // to be put into another
    std::string text() const { return "\x80\x02" + text_ + '.'; } // PROTO 2 ... STOP

private:
    static constexpr size_t kMostAtOnce = 1000;

    void add_bytes(uint64_t number, int bytes) {
        for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(number >> (8 * i) & 0xff);
    }

    std::string text_;
};

} // namespace hw4
