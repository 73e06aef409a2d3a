// The threads of a machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/parallel.h"

namespace hw4::step {

class Team {
public:
    explicit Team(int threads) : threads_(threads > 0 ? threads : available_processors()) {}

    int threads() const { return threads_; }
    Crew& crew() { return crew_; }

    // work(thing, thread), which must not throw, for every thing.
    template <class Work>
    void each(int64_t things, const Work& work) {
        std::atomic<int64_t> next{0};
        std::atomic<int> next_thread{0};
        const auto take = [&] {
            const int thread = next_thread.fetch_add(1);
            for (int64_t i = 0; (i = next.fetch_add(1)) < things;) work(i, thread);
        };
        const auto workers = static_cast<int>(std::min<int64_t>(threads_, things));
        if (workers > 1)
            crew_.run(workers, take);
        else
            take();
    }

    // Calls work(first, count, thread) for pieces of at most `piece` things.
    template <class Work>
    void pieces(int64_t things, int64_t piece, const Work& work) {
        each((things + piece - 1) / piece,
             [&](int64_t i, int thread) { work(i * piece, std::min(piece, things - i * piece), thread); });
    }

private:
    int threads_;
    Crew crew_;
};

} // namespace hw4::step
