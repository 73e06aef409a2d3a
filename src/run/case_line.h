// The cases of a run between their opening and their end, by their numbers. As many as are opened ahead wait here.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "src/run/conveyor.h"
#include "src/run/first_failure.h"

namespace hw4 {

// A case as the threads of a run see it.
struct CaseOnItsWay {
    CaseOnItsWay(RunCase& run_case, int its_number)
        : run(run_case), number(its_number), failed(run.failure != nullptr) {}

    RunCase& run;
    const int number;
    std::optional<CasePart> part; // all of the input's problem, mostly
    Problem problem;              // the part's
    StagingPlan plan{};
    std::optional<DomainCheck> domain; // joined by the thread that feeds the engine
    Engine* engine = nullptr;          // set before the first part is pushed
    int first_slot = 0;                // of the engine's
    std::atomic<bool> failed;
    bool over = false; // by the line's lock
};

class CaseLine : private SharedState {
public:
    explicit CaseLine(int most) : most_(most) {}

    // The thread that opens cases waits until there is room for another. False when the run stops.
    bool wait_for_room() {
        const auto locked = wait_or_stop([this] { return cases_.size() < static_cast<size_t>(most_); });
        return !stopped_;
    }
    void add(std::unique_ptr<CaseOnItsWay> added_case) {
        change([&] { cases_.push_back(std::move(added_case)); });
    }
    // No more will be added.
    void close() {
        change([this] { closed_ = true; });
    }

    // The case of that number, once it was added, which is not over; null after the last. Throws Stopped.
    CaseOnItsWay* wait(int number) {
        const auto locked = wait_for([&] { return closed_ || number < added(); });
        return number < added() ? cases_[static_cast<size_t>(number - first_)].get() : nullptr;
    }

    // Keeps the first failure of a case.
    void fail(CaseOnItsWay& failed, std::exception_ptr error) {
        const auto locked = lock();
        if (!failed.run.failure) failed.run.failure = std::move(error);
        failed.failed = true;
    }

    // Nothing is left to do for the case. Calls `settle` for every case that is over and before which all are, in their
    // order, one at a time; after it the case is gone. Once it has thrown, no case is settled any more.
    template <class Settle>
    void end(CaseOnItsWay& ended, const Settle& settle) {
        change([&] { ended.over = true; });
        const std::lock_guard<std::mutex> one_at_a_time(settling_);
        while (CaseOnItsWay* const first = settles_ ? first_if_over() : nullptr) {
            settles_ = false;
            settle(*first);
            settles_ = true;
            change([this] {
                cases_.pop_front();
                ++first_;
            });
        }
    }

    // No thread waits any longer. Calls `wake` for every case that is not over: what is may be gone but for its number.
    template <class Wake>
    void stop(const Wake& wake) {
        change([&] {
            stopped_ = true;
            for (const auto& waiting : cases_)
                if (!waiting->over) wake(*waiting);
        });
    }

private:
    int added() const { return first_ + static_cast<int>(cases_.size()); }
    CaseOnItsWay* first_if_over() {
        const auto locked = lock();
        return cases_.empty() || !cases_.front()->over ? nullptr : cases_.front().get();
    }

    const int most_;
    std::mutex settling_;
    bool settles_ = true;                             // no: it has thrown
    std::deque<std::unique_ptr<CaseOnItsWay>> cases_; // from number first_ on
    int first_ = 0;
    bool closed_ = false;
};

} // namespace hw4
