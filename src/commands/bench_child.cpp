#include "src/commands/bench_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/file_descriptor.h"
#include "src/bench/row_json.h"
#include "src/commands/bench_options.h"

namespace hw4::bench {
namespace {

[[noreturn]] void fail(const char* what) {
    throw Error(ExitCode::out_of_memory, with_errno(std::string("no process for a cell: ") + what));
}

// In the child, where nothing may be allocated.
[[noreturn]] void become(char* const* argv, int output) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::dup2(output, STDOUT_FILENO) >= 0) ::execv("/proc/self/exe", argv);
    ::_exit(static_cast<int>(ExitCode::internal));
}

std::string all_from(int fd) {
    std::string text;
    std::array<char, 65536> buffer{};
    for (;;) {
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw Error(ExitCode::io_error, with_errno("cannot read what a cell's process says"));
        if (got == 0) return text;
        text.append(buffer.data(), static_cast<size_t>(got));
    }
}

int status_of(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) fail("waitpid");
    return status;
}

} // namespace

Row measure_in_child(const Cell& cell) {
    std::vector<std::string> words = {"hw4", "bench"};
    for (const std::string& option : options_for(cell)) words.push_back(option);
    words.insert(words.end(), {"--quiet", "--output", "-"});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    const FileDescriptor from(ends[0]);
    FileDescriptor to(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) become(argv.data(), to.get());
    to = FileDescriptor();
    const std::string text = all_from(from.get());
    const int status = status_of(child);
    if (WIFSIGNALED(status))
        return row_without(cell, Status::failed, "its process was ended by signal " + std::to_string(WTERMSIG(status)));
    if (text.empty())
        return row_without(cell, Status::failed,
                           "its process ended with exit code " + std::to_string(WEXITSTATUS(status)));
    Row row = read_rows(text, "a cell's process").front();
    row.cell = cell;
    return row;
}

} // namespace hw4::bench
