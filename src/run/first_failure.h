// The error of a run: whichever stage fails first has its say, and everybody stops.
#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <utility>

namespace hw4 {

// Thrown by a wait that ends because another stage failed.
struct Stopped : std::exception {};

class FirstFailure {
public:
    // `stop` wakes whoever waits; it must not throw.
    explicit FirstFailure(std::function<void()> stop) : stop_(std::move(stop)) {}

    // Runs a stage. What it throws is kept if it is the first, and stops the others.
    template <class Work>
    void guard(const Work& work) noexcept {
        try {
            work();
        } catch (...) {
            keep(std::current_exception());
            stop_();
        }
    }

    // After every stage has ended.
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
