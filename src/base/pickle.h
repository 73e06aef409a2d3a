// Writes values in Python's pickle format, protocol 2, with nine of its opcodes: pickle.load() reads them, and so does
// any unpickler without classes.
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
    // Text in UTF-8.
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
    // Appends to an existing list. In parts, because JavaScript unpicklers pass each part as function arguments.
    template <class AddItem>
    void add_to_list(size_t count, const AddItem& add_item) {
        for (size_t i = 0; i < count; ++i) {
            if (i % kMostAtOnce == 0) text_ += '('; // MARK
            add_item(i);
            if (i % kMostAtOnce == kMostAtOnce - 1 || i == count - 1) text_ += 'e'; // APPENDS
        }
    }
    // Adds an item of a dictionary.
    template <class Value>
    void add(const char* name, const Value& value) {
        add(std::string(name));
        add(value);
    }

    const std::string& opcodes() const { return text_; }          // for inclusion in another pickle
    std::string text() const { return "\x80\x02" + text_ + '.'; } // PROTO 2 ... STOP

private:
    static constexpr size_t kMostAtOnce = 1000;

    void add_bytes(uint64_t number, int bytes) {
        for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(number >> (8 * i) & 0xff);
    }

    std::string text_;
};

} // namespace hw4
