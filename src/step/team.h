// The threads of a machine, and memory that it keeps from one operation to the next.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/parallel.h"
#include "src/step/host_machine.h"

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

    // work(first, count, thread) for pieces of so many things.
    template <class Work>
    void pieces(int64_t things, int64_t piece, const Work& work) {
        each((things + piece - 1) / piece,
             [&](int64_t i, int thread) { work(i * piece, std::min(piece, things - i * piece), thread); });
    }

private:
    int threads_;
    Crew crew_;
};

// Floats of any content, as many as the largest operation needed.
class Room {
public:
    // Throws Error (out_of_memory).
    float* of(int64_t floats) {
        if (floats > floats_) {
            floats_ = 0;
            memory_.reset(); // first: there may not be enough for both
            memory_ = allocate_on_host<float>(static_cast<size_t>(floats));
            floats_ = floats;
        }
        return memory_.get();
    }

private:
    Owned<float> memory_;
    int64_t floats_ = 0;
};

inline void add_floats(float* a, const float* b, int64_t count) {
    for (int64_t i = 0; i < count; ++i) a[i] = a[i] + b[i];
}

} // namespace hw4::step
