// Ctrl-C and kill: temporary output files are removed, then the process ends with 128 + signal.
#pragma once

#include <atomic>
#include <csignal>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace hw4 {

// Blocks SIGINT, SIGTERM and SIGHUP for the whole process and waits for them in its own thread, so that it may use
// locks and strings, unlike a handler, and needs no globals. Construct it before any other thread starts.
class InterruptGuard {
public:
    // Prints a message on standard error in the name of `program`, if given.
    explicit InterruptGuard(const char* program = nullptr);
    ~InterruptGuard();
    InterruptGuard(const InterruptGuard&) = delete;
    InterruptGuard& operator=(const InterruptGuard&) = delete;

    // Runs `create`, which returns whether it has created the file; if so, a signal removes the file from then on. No
    // signal is handled in between. The path is stored first, because nothing may fail once the file exists.
    template <class Create>
    bool guard(const std::string& path, const Create& create) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto kept = paths_.insert(path); // may already guard a file of that name
        if (create()) return true;
        forget(kept);
        return false;
    }

    // Runs `settle`, which returns whether it has renamed or removed the guarded file; if so, signals no longer remove
    // that path.
    template <class Settle>
    bool release(const std::string& path, const Settle& settle) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!settle()) return false;
        forget(paths_.find(path));
        return true;
    }

private:
    void wait_for_signal();
    void forget(std::multiset<std::string>::const_iterator kept);

    const char* program_;
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::multiset<std::string> paths_;
    sigset_t signals_{};
    sigset_t before_{};
    std::thread waiter_;
};

} // namespace hw4
