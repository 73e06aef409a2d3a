// The cases of a run between their opening and their end, by their numbers. As many as are opened ahead wait here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "src/run/conveyor.h"

namespace hw4 {

// One of them, as the threads of a run see it.
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
    bool over = false; // by the line's mutex
};

class CaseLine {
public:
    explicit CaseLine(int most) : most_(most) {}

    // Who opens cases: waits until there is room for another. False when the run stops.
    bool wait_for_room();
    void add(std::unique_ptr<CaseOnItsWay> added);
    // No more will be added.
    void close();

    // The case of that number, once it was added, which is not over; null after the last. Throws Stopped.
    CaseOnItsWay* wait(int number);

    // Keeps the first failure of a case.
    void fail(CaseOnItsWay& failed, std::exception_ptr error);

    // Nothing is left to do for the case. Calls `settle` for every case that is over and before which all are, in their
    // order, one at a time; after it the case is gone. Once it has thrown, no case is settled any more.
    template <class Settle>
    void end(CaseOnItsWay& ended, const Settle& settle) {
        mark_over(ended);
        const std::lock_guard<std::mutex> one_at_a_time(settling_);
        while (CaseOnItsWay* const first = settles_ ? first_if_over() : nullptr) {
            settles_ = false;
            settle(*first);
            settles_ = true;
            forget_first();
        }
    }

    // Nobody waits any longer. Calls `wake` for every case that is not over: what is may be gone but for its number.
    template <class Wake>
    void stop(const Wake& wake) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            stopped_ = true;
            for (const auto& waiting : cases_)
                if (!waiting->over) wake(*waiting);
        }
        changed_.notify_all();
    }

private:
    int added() const { return first_ + static_cast<int>(cases_.size()); }
    void mark_over(CaseOnItsWay& ended);
    CaseOnItsWay* first_if_over();
    void forget_first();

    const int most_;
    std::mutex settling_;
    bool settles_ = true; // no: it has thrown
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::unique_ptr<CaseOnItsWay>> cases_; // from number first_ on
    int first_ = 0;
    bool closed_ = false;
    bool stopped_ = false;
};

} // namespace hw4
