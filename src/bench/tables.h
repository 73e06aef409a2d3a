// Rows as tables: for a terminal, and as CSV with a line per pass.
#pragma once

#include <string>
#include <vector>

#include "src/bench/row.h"

namespace hw4::bench {

// Formats a number with printf, in up to 31 letters.
std::string with_digits(const char* format, double x);

// A line for each row, in columns that fit the cells given at the start.
class TerminalTable {
public:
    // There is at least one cell. `baseline`: of the ratios; empty: rows have none.
    TerminalTable(const std::vector<Cell>& cells, const std::string& baseline);
    std::string head() const;
    std::string line(const Row& row) const;

private:
    Row empty_;
    std::vector<size_t> widths_;
};

std::string csv_head();
std::string csv_of(const Row& row);

} // namespace hw4::bench
