// The texts of --help, from which src/install makes man pages and shell completion.
#pragma once

#include <string>
#include <type_traits>

#include "src/base/command_line.h"

namespace hw4 {

// "  --model small|medium". The list has names, things with a name, or pointers to these.
template <class List>
std::string choice(const char* option, const List& list) {
    std::string names;
    for (const auto& one : list) {
        names += names.empty() ? "" : "|";
        if constexpr (std::is_convertible_v<decltype(one), std::string>)
            names += one;
        else if constexpr (std::is_pointer_v<std::decay_t<decltype(one)>>)
            names += one->name;
        else
            names += one.name;
    }
    return "  " + std::string(option) + " " + names;
}

// The text, its words filled into lines of at most 80 columns. In it "  NAME  what it is" is an entry of a list: all
// entries are explained from `column` on, in lines that begin with more blanks. Blank lines stay.
inline std::string laid_out(const std::string& text, size_t column = 24) {
    constexpr size_t kColumns = 80;
    std::string lines;
    size_t indent = 0, at = 0; // at: the columns of the last line, 0: none
    const auto put = [&](const std::string& word) {
        const bool fits = at <= indent || at + 1 + word.size() <= kColumns;
        const std::string before = at == 0 || at == indent ? "" : fits ? " " : "\n" + std::string(indent, ' ');
        at = fits ? at + before.size() + word.size() : indent + word.size();
        lines += before + word;
    };
    const auto end_line = [&] {
        if (at > 0) lines += "\n";
        at = indent = 0;
    };
    for (const std::string& line : split(text, '\n')) {
        size_t start = line.find_first_not_of(' ');
        if (start == std::string::npos || start == 2 || (start == 0 && indent > 0)) end_line();
        if (start == std::string::npos) {
            lines += "\n";
            continue;
        }
        if (start == 2) {
            const size_t end = std::min(line.find("  ", start), line.size());
            lines += line.substr(0, end);
            start = std::min(line.find_first_not_of(' ', end), line.size());
            indent = column;
            at = end;
            if (start < line.size()) {
                lines += end + 2 <= column ? std::string(column - end, ' ') : "\n" + std::string(column, ' ');
                at = column;
            }
        }
        for (const std::string& word : split(line.substr(start), ' '))
            if (!word.empty()) put(word);
    }
    lines.pop_back(); // of the last line, which ends the text
    return lines;
}

} // namespace hw4
