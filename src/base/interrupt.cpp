#include "src/base/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <system_error>

#include "src/base/error.h"

namespace hw4 {
namespace {
constexpr int kStopWaiting = SIGUSR2; // sent by the destructor to its own thread

// Signals that the caller has ignored (nohup, a background job) stay ignored.
bool ignored(int signal) {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Writes once, because other threads may be writing. Clears a line of progress on a terminal. A reader that has stopped
// reading must not keep the process from ending.
void say_ended(const char* program, int signal) {
    const char* const name = signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
    const std::string line = (::isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "") + std::string(program) + ": ended by " +
                             name + "; a file that was not complete is as it was\n";
    pollfd stream{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&stream, 1, 0) != 1 || (stream.revents & POLLOUT) == 0) return;
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return; // the message has no reader any more
}
} // namespace

InterruptGuard::InterruptGuard(const char* program) : program_(program) {
    // A closed pipe or a file-size limit then makes write() fail, which is reported like any other error.
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
        if (!ignored(signal)) sigaddset(&signals_, signal);
    sigaddset(&signals_, kStopWaiting);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    try {
        waiter_ = std::thread([this] { wait_for_signal(); });
    } catch (const std::system_error&) {
        throw Error(ExitCode::out_of_memory, "no thread can be started");
    }
}

InterruptGuard::~InterruptGuard() {
    stopping_ = true;
    pthread_kill(waiter_.native_handle(), kStopWaiting);
    waiter_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

// Preserves errno: the caller's call may have failed.
void InterruptGuard::forget(std::multiset<std::string>::const_iterator kept) {
    const int error = errno;
    paths_.erase(kept);
    errno = error;
}

void InterruptGuard::wait_for_signal() {
    int signal = 0;
    do {
        if (sigwait(&signals_, &signal) != 0) continue;
        if (signal == kStopWaiting && stopping_) return;
    } while (signal == 0 || signal == kStopWaiting); // sent by another process
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::string& path : paths_) ::unlink(path.c_str());
    if (program_ != nullptr) say_ended(program_, signal);
    ::_exit(128 + signal);
}

} // namespace hw4
