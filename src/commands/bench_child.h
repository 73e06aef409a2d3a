// A cell in a process of its own, as the course's exercise demands of its measurements: nothing is left of the cells
// before, and one that crashes is a row.
#pragma once

#include <functional>
#include <string>

#include "src/bench/row.h"

namespace hw4::bench {

// What `work` returns in a process that forks from this one, which must not have used a GPU. Throws Error: no process
// can be started; (no_gpu) the process has found none.
std::string said_by_child(const std::function<std::string()>& work);

// The row of the cell that `measure` gives in such a process.
Row measure_in_child(const Cell& cell, const std::function<Row()>& measure);

} // namespace hw4::bench
