// How the threads of a run end together: the first failure counts, and no thread waits any longer.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

namespace hw4 {

// Thrown by a wait that ends because another stage failed.
struct Stopped : std::exception {};

// State that threads wait for: every change wakes all waiting threads.
class SharedState {
public:
    // Ends all waiting.
    void stop() {
        change([this] { stopped_ = true; });
    }

protected:
    ~SharedState() = default;

    std::unique_lock<std::mutex> lock() { return std::unique_lock<std::mutex>(mutex_); }

    template <class Change>
    void change(const Change& make) {
        {
            const auto locked = lock();
            make();
        }
        changed_.notify_all();
    }

    // Returns the lock once the state is `ready` or the run stops.
    template <class Ready>
    std::unique_lock<std::mutex> wait_or_stop(const Ready& ready) {
        auto locked = lock();
        changed_.wait(locked, [&] { return stopped_ || ready(); });
        return locked;
    }
    // Throws Stopped.
    template <class Ready>
    std::unique_lock<std::mutex> wait_for(const Ready& ready) {
        auto locked = wait_or_stop(ready);
        if (stopped_) throw Stopped();
        return locked;
    }

    bool stopped_ = false;

private:
    std::mutex mutex_;
    std::condition_variable changed_;
};

class FirstFailure {
public:
    // `stop` wakes all waiting threads; it must not throw.
    explicit FirstFailure(std::function<void()> stop) : stop_(std::move(stop)) {}

    // Runs a stage. Its exception is stored if it is the first, and stops the other stages.
    template <class Work>
    void guard(const Work& work) noexcept {
        try {
            work();
        } catch (...) {
            keep(std::current_exception());
            stop_();
        }
    }

    // Call after every stage has ended.
    void rethrow() const {
        if (first_) std::rethrow_exception(first_);
    }

private:
    void keep(std::exception_ptr error) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!first_) first_ = std::move(error);
    }

    std::function<void()> stop_;
    std::mutex mutex_;
    std::exception_ptr first_;
};

} // namespace hw4
