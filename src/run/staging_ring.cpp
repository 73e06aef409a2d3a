#include "src/run/staging_ring.h"

#include <algorithm>
#include <utility>

#include "src/run/first_failure.h"

namespace hw4 {

void StagingRing::add(const PiecesOfCase& pieces) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        cases_.push_back({pieces.pieces, pieces.buffers, pieces.in_turn});
    }
    changed_.notify_all();
}

void StagingRing::close() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
    }
    changed_.notify_all();
}

void StagingRing::pass_cases_that_are_taken() {
    while (taking_ < added() && case_of(taking_).taken == case_of(taking_).end) ++taking_;
}

bool StagingRing::can_take() {
    if (taking_ == added() || next_ == released_ + buffers_) return false;
    const Case& next = case_of(taking_);
    return next.taken < next.released + next.buffers && !(next.in_turn && next.being_read > 0);
}

std::optional<StagedPiece> StagingRing::take() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto over = [&] { return stopped_ || (closed_ && taking_ == added()); };
    changed_.wait(lock, [&] {
        pass_cases_that_are_taken();
        return over() || can_take();
    });
    if (over()) return std::nullopt;
    Case& taken_from = case_of(taking_);
    ++taken_from.being_read;
    return StagedPiece{taking_, taken_from.taken++, next_++};
}

void StagingRing::filled(const StagedPiece& staged, const Findings& findings) {
    set_filled(staged, {true, findings, nullptr});
}

void StagingRing::failed(const StagedPiece& staged, std::exception_ptr error) {
    set_filled(staged, {true, {}, std::move(error)});
}

void StagingRing::set_filled(const StagedPiece& staged, const Entry& entry) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        entry_of(staged.number) = entry;
        Case& read = case_of(staged.of);
        --read.being_read;
        if (entry.error) read.end = read.taken;
    }
    changed_.notify_all();
}

bool StagingRing::has_no_more(int of) {
    const Case& taken_from = case_of(of);
    return taken_from.released == taken_from.taken && taken_from.taken == taken_from.end;
}

void StagingRing::forget_first() {
    cases_.pop_front();
    ++first_;
    taking_ = std::max(taking_, first_);
}

std::optional<FilledPiece> StagingRing::wait_filled(int of) {
    std::unique_lock<std::mutex> lock(mutex_);
    const Entry& entry = entry_of(released_);
    changed_.wait(lock, [&] { return stopped_ || entry.filled || has_no_more(of); });
    if (stopped_) throw Stopped();
    if (has_no_more(of)) {
        forget_first();
        return std::nullopt;
    }
    return FilledPiece{{of, case_of(of).released, released_}, entry.findings, entry.error};
}

void StagingRing::release(const StagedPiece& staged) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        entry_of(staged.number) = {};
        ++released_;
        ++case_of(staged.of).released;
    }
    changed_.notify_all();
}

void StagingRing::abandon(int of) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (of < first_) return; // all of it is out
        case_of(of).end = case_of(of).taken;
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
