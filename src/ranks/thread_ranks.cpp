#include <condition_variable>
#include <exception>
#include <mutex>

#include "src/base/parallel.h"
#include "src/ranks/launched.h"

namespace hw4 {
namespace {

// Thrown in the other ranks after a rank has failed or returned.
class AnotherHasEnded : public Error {
public:
    AnotherHasEnded() : Error(ExitCode::internal, "another rank has ended") {}
};

bool is_its_own(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const AnotherHasEnded&) {
        return false;
    } catch (...) {
        return true;
    }
}

// The ranks' meeting place. An exchange has two halves: all give, then all have taken.
class MeetingPlace {
public:
    explicit MeetingPlace(int count) : count_(count), given_(static_cast<size_t>(count)) {}

    std::vector<std::string> exchange(int rank, const std::string& mine) {
        std::unique_lock<std::mutex> lock(mutex_);
        given_[static_cast<size_t>(rank)] = mine;
        meet(lock);
        std::vector<std::string> all = given_;
        meet(lock);
        return all;
    }

    // One rank gives nothing more.
    void leave() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            left_ = true;
        }
        changed_.notify_all();
    }

private:
    void meet(std::unique_lock<std::mutex>& lock) {
        const int64_t meeting = meetings_;
        if (++there_ == count_) {
            there_ = 0;
            ++meetings_;
            changed_.notify_all();
        }
        changed_.wait(lock, [&] { return meetings_ > meeting || left_; });
        if (meetings_ == meeting) throw AnotherHasEnded();
    }

    const int count_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> given_; // by rank
    int there_ = 0;
    int64_t meetings_ = 0;
    bool left_ = false;
};

class ThreadRank : public Ranks {
public:
    ThreadRank(int rank, int count, MeetingPlace& place) : rank_(rank), count_(count), place_(place) {}

    int rank() const override { return rank_; }
    int count() const override { return count_; }
    int node_rank() const override { return rank_; }
    bool in_one_process() const override { return true; }
    std::string node() const override { return machine_name(); }
    std::vector<std::string> exchange(const std::string& mine) override { return place_.exchange(rank_, mine); }
    [[noreturn]] void abort(ExitCode code) noexcept override { ::_exit(static_cast<int>(code)); }

private:
    int rank_;
    int count_;
    MeetingPlace& place_;
};

} // namespace

void on_thread_ranks(int count, const std::function<void(Ranks&)>& body) {
    MeetingPlace place(count);
    std::vector<std::exception_ptr> failures(static_cast<size_t>(count));
    const auto take_part = [&](int rank) {
        try {
            ThreadRank ranks(rank, count, place);
            body(ranks);
        } catch (...) {
            failures[static_cast<size_t>(rank)] = std::current_exception();
        }
        place.leave();
    };
    {
        // Every rank needs its own thread, while WorkerThreads accepts fewer threads.
        std::vector<WorkerThreads> threads(static_cast<size_t>(count));
        try {
            for (int rank = 1; rank < count; ++rank)
                threads[static_cast<size_t>(rank)].start(1, [&take_part, rank](int) { take_part(rank); });
        } catch (...) {
            place.leave();
            throw;
        }
        take_part(0);
    }
    for (const bool own : {true, false})
        for (const std::exception_ptr& failure : failures)
            if (failure && is_its_own(failure) == own) std::rethrow_exception(failure);
}

} // namespace hw4
