#include "src/run/part_queue.h"

#include "src/run/first_failure.h"

namespace hw4 {

void PartQueue::push(const OutputPart& part) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        parts_.push_back(part);
        ++unfetched_[part.slot];
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
    changed_.wait(lock, [&] { return stopped_ || closed_ || !parts_.empty(); });
    if (stopped_ || parts_.empty()) return std::nullopt;
    const OutputPart part = parts_.front();
    parts_.pop_front();
    return part;
}

void PartQueue::fetched(int slot) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        --unfetched_[slot];
    }
    changed_.notify_all();
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
