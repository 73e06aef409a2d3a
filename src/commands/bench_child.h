// A cell in a process of its own, as the course's exercise demands of its measurements: nothing is left of the cells
// before, and one that crashes is a row.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "src/base/file_descriptor.h"
#include "src/bench/row.h"

namespace hw4::bench {

// What `work` returns in a process that forks from this one, which must not have used a GPU. Throws Error: no process
// can be started; (no_gpu) the process has found none.
std::string said_by_child(const std::function<std::string()>& work);

// The row of the cell that `measure` gives in such a process.
Row measure_in_child(const Cell& cell, const std::function<Row()>& measure);

// By PyTorch, in python3: report/torch_cell.py beside this program, or ../libexec/hw4/torch_cell.py where it is
// installed. Where one of them is missing, the row says so. One process for many cells, since to load PyTorch takes
// seconds; after one that failed, the next cell has a new one.
class TorchHelper {
public:
    TorchHelper() = default;
    TorchHelper(const TorchHelper&) = delete;
    TorchHelper& operator=(const TorchHelper&) = delete;
    ~TorchHelper();

    // Throws Error where no process can be started.
    Row measure(const Cell& cell);
    // So that the next cell has a process of its own. Returns its status, as waitpid() gives it.
    int end();

private:
    void start(const std::string& script);
    bool say(const std::string& line) const;

    pid_t child_ = 0; // 0: none
    FileDescriptor socket_;
};

} // namespace hw4::bench
