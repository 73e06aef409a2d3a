// Ctrl-C and kill: temporary output files are removed, then the process ends with 128 + signal.
#pragma once

#include <atomic>
#include <csignal>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

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

    // A file by the open directory it is in, which may get another name, and its name there.
    using Place = std::pair<int, std::string>;

    // Runs `create`, which tells whether it has made the file; if so, a signal removes it from then on. No signal is
    // acted on in between. Neither this nor `create` may fail once the file is there, so its place is kept first.
    template <class Create>
    bool guard(const Place& place, const Create& create) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto kept = places_.insert(place); // beside one of another file that is there by that name, if any
        if (create()) return true;
        forget(kept);
        return false;
    }

    // Runs `settle`, which tells whether it has given the guarded file its final name or removed it; if so, a signal
    // leaves that place alone after. It has to be so before the directory is closed.
    template <class Settle>
    bool release(const Place& place, const Settle& settle) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!settle()) return false;
        forget(places_.find(place));
        return true;
    }

    // Runs `work`, which may throw. No signal is acted on meanwhile.
    template <class Work>
    void undisturbed(const Work& work) {
        const std::lock_guard<std::mutex> lock(mutex_);
        work();
    }

private:
    void wait_for_signal();
    void forget(std::multiset<Place>::const_iterator kept);

    const char* program_;
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::multiset<Place> places_;
    sigset_t signals_{};
    sigset_t before_{};
    std::thread waiter_;
};

} // namespace hw4
