#include "src/run/case_line.h"

#include <utility>

#include "src/run/first_failure.h"

namespace hw4 {

bool CaseLine::wait_for_room() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || cases_.size() < static_cast<size_t>(most_); });
    return !stopped_;
}

void CaseLine::add(std::unique_ptr<CaseOnItsWay> added) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        cases_.push_back(std::move(added));
    }
    changed_.notify_all();
}

void CaseLine::close() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
    }
    changed_.notify_all();
}

CaseOnItsWay* CaseLine::wait(int number) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || closed_ || number < added(); });
    if (stopped_) throw Stopped();
    return number < added() ? cases_[static_cast<size_t>(number - first_)].get() : nullptr;
}

void CaseLine::fail(CaseOnItsWay& failed, std::exception_ptr error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failed.run.failure) failed.run.failure = std::move(error);
    failed.failed = true;
}

void CaseLine::mark_over(CaseOnItsWay& ended) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended.over = true;
}

CaseOnItsWay* CaseLine::first_if_over() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return cases_.empty() || !cases_.front()->over ? nullptr : cases_.front().get();
}

void CaseLine::forget_first() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        cases_.pop_front();
        ++first_;
    }
    changed_.notify_all();
}

} // namespace hw4
