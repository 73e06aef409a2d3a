#include "src/commands/bench_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <string>

#include "src/base/error.h"
#include "src/base/file_descriptor.h"
#include "src/bench/row_json.h"
#include "src/ranks/agree.h"

namespace hw4::bench {
namespace {

constexpr int kNotStarted = 127; // the parent has ended, so nobody sees it

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
    if (::getppid() != parent) ::_exit(kNotStarted);
}

pid_t forked() {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) begin_child(parent);
    return child;
}

// What comes until the other end is closed.
std::string text_from(int fd) {
    std::string text;
    std::array<char, 65536> buffer{};
    while (true) {
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
    ended.text = text_from(from.get());
    ended.status = status_of(child);
    return ended;
}

std::string why_ended(const Ended& ended) {
    return WIFSIGNALED(ended.status) ? "was ended by signal " + std::to_string(WTERMSIG(ended.status))
                                     : "ended with exit code " + std::to_string(WEXITSTATUS(ended.status));
}

// The row that a process has said.
Row row_from(const Ended& ended, const Cell& cell) {
    if (ended.text.empty() || WIFSIGNALED(ended.status))
        return row_without(cell, Status::failed, "its process " + why_ended(ended));
    try {
        return read_answer(ended.text, "its process", cell);
    } catch (const Error& error) {
        return row_without(cell, Status::failed, error.what());
    }
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

} // namespace hw4::bench
