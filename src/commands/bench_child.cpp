#include "src/commands/bench_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/bench/row_json.h"
#include "src/ranks/agree.h"

namespace hw4::bench {
namespace {

constexpr int kNotStarted = 127; // as shells have it

[[noreturn]] void fail(const char* what) {
    throw Error(ExitCode::out_of_memory, with_errno(std::string("no process for a cell: ") + what));
}

// In the child. The program blocks and ignores signals, which the child must not.
void begin_child(pid_t parent) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGXFSZ, SIG_DFL);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kNotStarted); // it has ended before that
}

pid_t forked() {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) begin_child(parent);
    return child;
}

// What comes until the other end is closed or, where `of_a_line`, a line has ended.
std::string text_from(int fd, bool of_a_line) {
    std::string text;
    std::array<char, 65536> buffer{};
    while (!of_a_line || text.empty() || text.back() != '\n') {
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break; // its status says what became of the process
        text.append(buffer.data(), static_cast<size_t>(got));
    }
    return text;
}

int status_of(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) fail("waitpid");
    return status;
}

struct Ended {
    std::string text; // that it has sent
    int status = 0;   // as waitpid() gives it

    bool exited_with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
};

// The child's side of run_forked: sends what the work gives, or the message of its failure. Nothing of the parent's is
// ended or written by it.
[[noreturn]] void work_for(int output, const std::function<std::string()>& work) {
    std::string text;
    const std::optional<RankFailure> failure = attempt([&] { text = work(); });
    if (failure) text = failure->message;
    for (size_t done = 0; done < text.size();) {
        const ssize_t sent = ::write(output, text.data() + done, text.size() - done);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) ::_exit(static_cast<int>(ExitCode::io_error));
        done += static_cast<size_t>(sent);
    }
    ::_exit(static_cast<int>(failure ? failure->code : ExitCode::ok));
}

Ended run_forked(const std::function<std::string()>& work) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    const FileDescriptor from(ends[0]);
    FileDescriptor to(ends[1]);
    const pid_t child = forked();
    if (child == 0) work_for(to.get(), work);
    to = FileDescriptor(); // so that the child's end is the last
    Ended ended;
    ended.text = text_from(from.get(), false);
    ended.status = status_of(child);
    return ended;
}

std::string why_ended(const Ended& ended) {
    return WIFSIGNALED(ended.status) ? "was ended by signal " + std::to_string(WTERMSIG(ended.status))
                                     : "ended with exit code " + std::to_string(WEXITSTATUS(ended.status));
}

// The row that a process has said.
Row row_from(const Ended& ended, const Cell& cell) {
    if (ended.exited_with(kNotStarted)) return row_without(cell, Status::unsupported, "python3 cannot be started");
    if (ended.text.empty() && ended.exited_with(static_cast<int>(ExitCode::no_gpu)))
        return row_without(cell, Status::unsupported, "its process has found no usable GPU");
    if (ended.text.empty() || WIFSIGNALED(ended.status))
        return row_without(cell, Status::failed, "its process " + why_ended(ended));
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

std::string said_by_child(const std::function<std::string()>& work) {
    const Ended ended = run_forked(work);
    if (ended.exited_with(static_cast<int>(ExitCode::ok))) return ended.text;
    if (WIFSIGNALED(ended.status) || ended.text.empty())
        throw Error(ExitCode::internal, "the process that looks for a GPU " + why_ended(ended));
    throw Error(static_cast<ExitCode>(WEXITSTATUS(ended.status)), ended.text);
}

Row measure_in_child(const Cell& cell, const std::function<Row()>& measure) {
    const Ended ended = run_forked([&] { return cell_json(measure(), {}); });
    const bool told_why = WIFEXITED(ended.status) && WEXITSTATUS(ended.status) != 0 && !ended.text.empty();
    if (!told_why) return row_from(ended, cell);
    const bool no_gpu = ended.exited_with(static_cast<int>(ExitCode::no_gpu));
    return row_without(cell, no_gpu ? Status::unsupported : Status::failed, ended.text);
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
    child_ = forked();
    if (child_ != 0) return;
    if (::dup2(theirs.get(), STDIN_FILENO) >= 0 && ::dup2(theirs.get(), STDOUT_FILENO) >= 0)
        ::execlp("python3", "python3", "-B", script.c_str(), nullptr); // -B: no files
    ::_exit(kNotStarted);
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

Row TorchHelper::measure(const Cell& cell) {
    const std::string built = own_folder() + "/report/torch_cell.py";
    const std::string installed = own_folder() + "/../libexec/hw4/torch_cell.py";
    const bool is_built = ::access(built.c_str(), R_OK) == 0;
    if (!is_built && ::access(installed.c_str(), R_OK) != 0)
        return row_without(cell, Status::unsupported, "neither " + built + " nor " + installed + " is there");
    if (child_ == 0) start(is_built ? built : installed);
    Ended ended;
    if (say(cell_line(cell))) ended.text = text_from(socket_.get(), true);
    if (ended.text.empty() || ended.text.back() != '\n') {
        ended.text.clear(); // half a row is none
        ended.status = end();
    }
    Row row = row_from(ended, cell);
    if (row.status() == Status::failed) end(); // what CUDA fails by once it may fail by for ever
    return row;
}

} // namespace hw4::bench
