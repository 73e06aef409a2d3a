// Rows as JSON, and back: for plots, for --resume, for compare and for cells in processes of their own.
//
// A row has lab5.py's four fields as lab5.py writes them, and one more, "hw4", with all that they lack. The file of a
// single cell is its row, with what it was measured by and on in "hw4"; that of several has a list "results" of rows.
#pragma once

#include <string>
#include <vector>

#include "src/bench/row.h"

namespace hw4::bench {

// What all rows of a file share.
struct Frame {
    std::vector<std::string> argv;
    std::string machine = "null"; // a JSON object, where it is known
};

std::string file_json(const std::vector<Row>& rows, const Frame& frame);

// The rows of such a file. Throws Error (bad_data) that begins with `name`.
std::vector<Row> read_rows(const std::string& text, const std::string& name);

} // namespace hw4::bench
