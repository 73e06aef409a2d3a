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
    // With a word on standard error where `program` is to say one.
    explicit InterruptGuard(const char* program = nullptr);
    ~InterruptGuard();
    InterruptGuard(const InterruptGuard&) = delete;
    InterruptGuard& operator=(const InterruptGuard&) = delete;

    // Runs `create`, which returns whether it has created the file; if so, a signal removes the file from then on. No
    // signal is acted on in between. Nothing here may fail once the file is there, so its path is stored first.
    template <class Create>
    bool guard(const std::string& path, const Create& create) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto kept = paths_.insert(path); // a file of that name may be guarded already
        if (create()) return true;
        forget(kept);
        return false;
    }

    // Runs `settle`, which returns whether it has renamed or removed the guarded file; if so, a signal no longer
    // removes that path.
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
