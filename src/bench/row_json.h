// Rows as JSON, and back: for plots, for --resume, for compare and for cells in processes of their own.
//
// A row has lab5.py's four fields as lab5.py writes them, and one more, "hw4", with all that they lack. The file of a
// single cell is its row, with what it was measured by and on in "hw4"; that of several has a list "results" of rows.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/bench/row.h"

namespace hw4::bench {

// What all rows of a file share.
struct Frame {
    std::vector<std::string> argv;
    std::string machine = "null"; // a JSON object, where it is known
};

// Values of fields; an empty text is null.
std::string text_or_null(const std::string& text);
std::string numbers_json(const std::vector<double>& numbers);

// The file of a single cell.
std::string cell_json(const Row& row, const Frame& frame);

// That of several: its start, every row as an item, its end.
std::string list_start(const Frame& frame);
std::string list_item(const Row& row, bool first);
inline constexpr const char* kListEnd = "]\n}\n";

// Such a file that is read back.
struct RowFile {
    std::vector<Row> rows;
    std::string hw4_version;
    std::vector<std::pair<std::string, std::string>> machine; // fields and their values in JSON; none: not known
};

// Every parameter has to be there and be one that could be asked for. Throws Error (bad_data) that begins with `name`
// and names the row.
RowFile read_file(const std::string& text, const std::string& name);

// The row of a cell that another process has measured: what it says of the passes. Throws likewise.
Row read_answer(const std::string& text, const std::string& name, const Cell& cell);

// Why a row of that file is not what this program would measure, under this frame; empty where it is.
std::string why_not_taken(const Row& row, const RowFile& file, const Frame& frame);

} // namespace hw4::bench
