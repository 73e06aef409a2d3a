// Rows as JSON, for plots and for judge --compare.
//
// A row has lab5.py's four fields in lab5.py's form, and one more, "hw4", with everything else. The file of one cell is
// its row, where "hw4" also has the program and the machine; a file of several cells has a list "results" of rows.
#pragma once

#include <string>
#include <vector>

#include "src/bench/row.h"

namespace hw4::bench {

// The part that all rows of a file share.
struct Frame {
    std::vector<std::string> argv;
    std::string machine = "null"; // a JSON object, if known
};

// Values of fields; an empty text is null.
std::string text_or_null(const std::string& text);
std::string numbers_json(const std::vector<double>& numbers);

// The file of a single cell.
std::string cell_json(const Row& row, const Frame& frame);

// The file of several cells: its start, every row as an item, its end.
std::string list_start(const Frame& frame);
std::string list_item(const Row& row, bool first);
inline constexpr const char* kListEnd = "]\n}\n";

} // namespace hw4::bench
