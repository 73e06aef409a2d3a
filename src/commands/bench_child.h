// A cell in a process of its own, as the course's exercise demands of its measurements: nothing is left of the cells
// before, and one that crashes is a row.
#pragma once

#include <sys/types.h>

#include <string>

#include "src/base/file_descriptor.h"
#include "src/bench/row.h"

namespace hw4::bench {

// By this program once more. Throws Error where no process can be started.
Row measure_in_child(const Cell& cell);

// The GPU that such a process would measure on, as a file's frame has it; "null" where it finds none. Its line on
// standard error says why. Throws likewise.
std::string machine_of_child();

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
    std::string answer() const;

    pid_t child_ = 0; // 0: none
    FileDescriptor socket_;
};

} // namespace hw4::bench
