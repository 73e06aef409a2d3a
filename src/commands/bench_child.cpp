#include "src/commands/bench_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
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
#include "src/base/json.h"
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
[[noreturn]] void become(const char* program, char* const* argv, int input, int output, pid_t parent) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kNotStarted); // it has ended before that
    if (::dup2(input, STDIN_FILENO) >= 0 && ::dup2(output, STDOUT_FILENO) >= 0) ::execvp(program, argv);
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

// A process of the program. Its ends of what it reads and writes stay open here.
pid_t started(const char* program, std::vector<std::string> words, int input, int output) {
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) become(program, argv.data(), input, output, parent);
    return child;
}

Ended run_program(const char* program, const std::vector<std::string>& words) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    const FileDescriptor from(ends[0]);
    FileDescriptor to(ends[1]);
    const pid_t child = started(program, words, STDIN_FILENO, to.get());
    {
        const FileDescriptor closed = std::move(to); // so that the child's end is the last
    }
    Ended ended;
    ended.text = all_from(from.get());
    ended.status = status_of(child);
    return ended;
}

// The row that a program has said.
Row row_from(const Ended& ended, const std::string& program, const Cell& cell) {
    if (WIFSIGNALED(ended.status))
        return row_without(cell, Status::failed,
                           "its process was ended by signal " + std::to_string(WTERMSIG(ended.status)));
    if (ended.exited_with(kNotStarted)) return row_without(cell, Status::unsupported, program + " cannot be started");
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
    return row_from(run_program(kThisProgram, words), words.front(), cell);
}

std::string machine_of_child() {
    const Ended ended = run_program(kThisProgram, {"hw4", "bench", "--machine", "--device", "gpu"});
    return ended.exited_with(static_cast<int>(ExitCode::ok)) ? ended.text : "null";
}

TorchHelper::~TorchHelper() {
    if (child_ == 0) return;
    try {
        end();
    } catch (const Error&) { // it cannot be waited for: nothing is left to do
    }
}

int TorchHelper::end() {
    if (child_ == 0) return 0;
    socket_ = FileDescriptor(); // which it waits on
    return status_of(std::exchange(child_, 0));
}

void TorchHelper::start(const std::string& script) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
    socket_ = FileDescriptor(ends[0]);
    const FileDescriptor theirs(ends[1]);
    child_ = started("python3", {"python3", "-B", script, "--serve"}, theirs.get(), theirs.get()); // -B: no files
}

bool TorchHelper::say(const std::string& line) const {
    for (size_t done = 0; done < line.size();) {
        const ssize_t sent = ::send(socket_.get(), line.data() + done, line.size() - done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        done += static_cast<size_t>(sent);
    }
    return true;
}

// A line, or what there was of it when the process ended.
std::string TorchHelper::answer() const {
    std::string text;
    std::array<char, 65536> buffer{};
    while (text.empty() || text.back() != '\n') {
        const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(buffer.data(), static_cast<size_t>(got));
    }
    return text;
}

Row TorchHelper::measure(const Cell& cell) {
    const std::string built = own_folder() + "/report/torch_cell.py";
    const std::string installed = own_folder() + "/../libexec/hw4/torch_cell.py";
    const bool is_built = ::access(built.c_str(), R_OK) == 0;
    if (!is_built && ::access(installed.c_str(), R_OK) != 0)
        return row_without(cell, Status::unsupported, "neither " + built + " nor " + installed + " is there");
    if (child_ == 0) start(is_built ? built : installed);
    std::string line;
    for (const std::string& word : options_for(cell)) line += (line.empty() ? "[" : ", ") + json_string(word);
    Ended ended;
    if (say(line + "]\n")) ended.text = answer();
    if (ended.text.empty() || ended.text.back() != '\n') {
        ended.text.clear(); // half a row is none
        ended.status = end();
    }
    Row row = row_from(ended, "python3", cell);
    if (row.status() == Status::failed) end(); // what CUDA fails by once it may fail by for ever
    return row;
}

} // namespace hw4::bench
