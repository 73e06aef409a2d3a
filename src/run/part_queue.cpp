#include "src/run/part_queue.h"

#include <algorithm>

#include "src/run/first_failure.h"

namespace hw4 {

void PartQueue::hold(int of) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++cases_[of].left;
}

void PartQueue::push(const OutputPart& part) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        // All that may fail before anything counts: another case may follow, and wait.
        int64_t& unfetched = unfetched_[part.slot];
        OfCase& of_case = cases_[part.of];
        parts_.push_back(part);
        ++of_case.left;
        unfetched += part.rows > 0 ? 1 : 0;
        of_case.ended = part.rows == 0;
    }
    changed_.notify_all();
}

void PartQueue::close() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
    }
    changed_.notify_all();
}

std::optional<OutputPart> PartQueue::pop() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || can_pop() || (closed_ && parts_.empty()); });
    if (stopped_ || parts_.empty()) return std::nullopt;
    const OutputPart part = parts_.front();
    parts_.pop_front();
    if (part.in_turn) turn_taken_ = true;
    return part;
}

void PartQueue::fetched(int slot) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        --unfetched_[slot];
    }
    changed_.notify_all();
}

bool PartQueue::done(const OutputPart& part) {
    bool last = false;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (part.in_turn) turn_taken_ = false;
        const auto found = cases_.find(part.of);
        last = --found->second.left == 0 && found->second.ended;
        if (last) cases_.erase(found);
    }
    if (part.in_turn) changed_.notify_all();
    return last;
}

void PartQueue::wait_all_fetched() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto none_left = [](const auto& slot) { return slot.second == 0; };
    changed_.wait(lock, [&] { return stopped_ || std::all_of(unfetched_.begin(), unfetched_.end(), none_left); });
    if (stopped_) throw Stopped();
}

void PartQueue::wait_fetched(int slot) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || unfetched_[slot] == 0; });
    if (stopped_) throw Stopped();
}

void PartQueue::stop() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stopped_ = true;
    }
    changed_.notify_all();
}

} // namespace hw4
