#include "src/commands/bench_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/file_descriptor.h"
#include "src/bench/row_json.h"
#include "src/commands/bench_options.h"

namespace hw4::bench {
namespace {

constexpr int kNotStarted = 127; // as shells have it
constexpr const char* kThisProgram = "/proc/self/exe";

[[noreturn]] void fail(const char* what) {
    throw Error(ExitCode::out_of_memory, with_errno(std::string("no process for a cell: ") + what));
}

// In the child, where nothing may be allocated. Signals are as this program found them: it blocks those that end it,
// which would keep the child from hearing of its end.
[[noreturn]] void become(const char* program, char* const* argv, int output, pid_t parent) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kNotStarted); // it has ended before that
    if (::dup2(output, STDOUT_FILENO) >= 0) ::execvp(program, argv);
    ::_exit(kNotStarted);
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

struct Ended {
    std::string text; // on its standard output
    int status = 0;   // as waitpid() gives it

    bool exited_with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
};

Ended run_program(const char* program, std::vector<std::string> words) {
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    const FileDescriptor from(ends[0]);
    FileDescriptor to(ends[1]);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) become(program, argv.data(), to.get(), parent);
    {
        const FileDescriptor closed = std::move(to); // so that the child's end is the last
    }
    Ended ended;
    ended.text = all_from(from.get());
    ended.status = status_of(child);
    return ended;
}

// The row that a program says on its standard output.
Row row_from(const char* program, const std::vector<std::string>& words, const Cell& cell) {
    const Ended ended = run_program(program, words);
    if (WIFSIGNALED(ended.status))
        return row_without(cell, Status::failed,
                           "its process was ended by signal " + std::to_string(WTERMSIG(ended.status)));
    if (ended.exited_with(kNotStarted))
        return row_without(cell, Status::unsupported, words.front() + " cannot be started");
    if (ended.text.empty() && ended.exited_with(static_cast<int>(ExitCode::no_gpu)))
        return row_without(cell, Status::unsupported, "its process has found no usable GPU");
    if (ended.text.empty())
        return row_without(cell, Status::failed,
                           "its process ended with exit code " + std::to_string(WEXITSTATUS(ended.status)));
    try {
        return read_answer(ended.text, "its process", cell);
    } catch (const Error& error) {
        return row_without(cell, Status::failed, error.what());
    }
}

// The folder that this program is in.
std::string own_folder() {
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? "." : program.parent_path().string();
}

} // namespace

Row measure_in_child(const Cell& cell) {
    std::vector<std::string> words = {"hw4", "bench"};
    const std::vector<std::string> options = options_for(cell);
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--quiet", "--output", "-"});
    return row_from(kThisProgram, words, cell);
}

std::string machine_of_child() {
    const Ended ended = run_program(kThisProgram, {"hw4", "bench", "--machine", "--device", "gpu"});
    return ended.exited_with(static_cast<int>(ExitCode::ok)) ? ended.text : "null";
}

Row measure_by_torch(const Cell& cell) {
    const std::string built = own_folder() + "/report/torch_cell.py";
    const std::string installed = own_folder() + "/../libexec/hw4/torch_cell.py";
    const bool is_built = ::access(built.c_str(), R_OK) == 0;
    if (!is_built && ::access(installed.c_str(), R_OK) != 0)
        return row_without(cell, Status::unsupported, "neither " + built + " nor " + installed + " is there");
    std::vector<std::string> words = {"python3", "-B", is_built ? built : installed}; // -B leaves nothing beside it
    const std::vector<std::string> options = options_for(cell);
    words.insert(words.end(), options.begin(), options.end());
    return row_from("python3", words, cell);
}

} // namespace hw4::bench
