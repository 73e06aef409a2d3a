// Ctrl-C and kill: temporary output files are removed, then the process ends with 128 + signal.
#pragma once

#include <atomic>
#include <csignal>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace hw4 {

// Blocks SIGINT, SIGTERM and SIGHUP for the whole process and waits for them in a thread of its own, so
// that what a handler may not do (locks, strings) is allowed here and nothing lives at namespace scope.
// Construct it before any other thread starts.
class InterruptGuard {
public:
    InterruptGuard();
    ~InterruptGuard();
    InterruptGuard(const InterruptGuard&) = delete;
    InterruptGuard& operator=(const InterruptGuard&) = delete;

    // Runs `create`, which makes a file and returns its path; from then on a signal removes that file. No
    // signal is acted on in between.
    template <class Create>
    void guard(Create&& create) {
        const std::lock_guard<std::mutex> lock(mutex_);
        paths_.insert(create());
    }

    // Runs `settle`, which gives the guarded file its final name or removes it; a signal leaves `path` alone after.
    template <class Settle>
    void release(const std::string& path, Settle&& settle) {
        const std::lock_guard<std::mutex> lock(mutex_);
        settle();
        paths_.erase(path);
    }

private:
    void wait_for_signal();

    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::set<std::string> paths_;
    sigset_t signals_;
    sigset_t before_;
    std::thread waiter_;
};

} // namespace hw4
