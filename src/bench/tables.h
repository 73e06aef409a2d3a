// Rows as tables: for a terminal, and as CSV, a line for each pass.
#pragma once

#include <string>
#include <vector>

#include "src/bench/row.h"

namespace hw4::bench {

// A number by a format of printf, of up to 31 letters.
std::string with_digits(const char* format, double x);

// A line for each row, once what is to come is known: impl must not be wider than the cells' widest.
class TerminalTable {
public:
    // There is a cell. `baseline`: of the ratios; empty: rows have none.
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
