#include "interrupt.h"

#include <pthread.h>
#include <unistd.h>

namespace hw4 {
namespace {
constexpr int kStopWaiting = SIGUSR2; // sent by the destructor to its own thread only
}

InterruptGuard::InterruptGuard() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, kStopWaiting}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    waiter_ = std::thread([this] { wait_for_signal(); });
}

InterruptGuard::~InterruptGuard() {
    pthread_kill(waiter_.native_handle(), kStopWaiting);
    waiter_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void InterruptGuard::wait_for_signal() {
    int signal = 0;
    do sigwait(&signals_, &signal);
    while (signal == 0);
    if (signal == kStopWaiting) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!path_.empty()) ::unlink(path_.c_str());
    ::_exit(128 + signal);
}

} // namespace hw4
