#include "src/run/staging_ring.h"

#include <utility>

#include "src/run/first_failure.h"

namespace hw4 {

std::optional<int64_t> StagingRing::take() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto over = [&] { return stopped_ || failed_ || next_ == pieces_; };
    changed_.wait(lock, [&] { return over() || next_ < released_ + buffers_; });
    if (over()) return std::nullopt;
    return next_++;
}

void StagingRing::filled(int64_t piece, const Findings& findings) { set_filled(piece, {true, findings, nullptr}); }

void StagingRing::failed(int64_t piece, std::exception_ptr error) { set_filled(piece, {true, {}, std::move(error)}); }

void StagingRing::set_filled(int64_t piece, const Entry& entry) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        entry_of(piece) = entry;
        failed_ = failed_ || entry.error != nullptr;
    }
    changed_.notify_all();
}

Findings StagingRing::wait_filled(int64_t piece) {
    std::unique_lock<std::mutex> lock(mutex_);
    const Entry& entry = entry_of(piece);
    changed_.wait(lock, [&] { return stopped_ || entry.filled; });
    if (stopped_) throw Stopped();
    if (entry.error) std::rethrow_exception(entry.error);
    return entry.findings;
}

void StagingRing::release(int64_t piece) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        entry_of(piece) = {};
        released_ = piece + 1;
    }
    changed_.notify_all();
}

void StagingRing::stop() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stopped_ = true;
    }
    changed_.notify_all();
}

} // namespace hw4
