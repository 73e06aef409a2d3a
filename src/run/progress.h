// A progress line on stderr for runs that take long; silent unless stderr is a terminal.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>

namespace hw4 {

class Progress {
public:
    Progress(const char* unit, double total) : unit_(unit), total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}
    ~Progress() {
        if (shown_) std::fputs("\r\033[K", stderr);
    }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // May be called by several threads.
    void add(double amount) {
        if (!terminal_) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        done_ += amount;
        const auto now = Clock::now();
        const double elapsed = std::chrono::duration<double>(now - start_).count();
        if (elapsed < 1.0 || done_ <= 0 || now - last_shown_ < std::chrono::milliseconds(200)) return;
        last_shown_ = now;
        shown_ = true;
        std::fprintf(stderr, "\r\033[K%.0f %%, %.0f of %.0f %s, %.0f s left", 100 * done_ / total_, done_, total_,
                     unit_, elapsed * (total_ - done_) / done_);
        std::fflush(stderr);
    }

private:
    using Clock = std::chrono::steady_clock;
    const char* unit_;
    double total_;
    bool terminal_;
    bool shown_ = false;
    double done_ = 0;
    Clock::time_point start_ = Clock::now();
    Clock::time_point last_shown_;
    std::mutex mutex_;
};

} // namespace hw4
