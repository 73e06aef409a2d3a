// One piece of work on several threads.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace hw4 {

// The processors this process may run on, which can be fewer than the machine has.
inline int available_processors() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Which they are, for comparing alone; empty where the system does not say.
inline std::string allowed_processors() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return "";
    return {reinterpret_cast<const char*>(&allowed), sizeof allowed};
}

// Runs `work`, which must not throw, on the calling thread and on threads - 1 others. Fewer threads than asked for is
// no error, so `work` takes its pieces from a common counter.
template <class Work>
void on_threads(int threads, const Work& work) {
    std::vector<std::thread> others;
    try {
        others.reserve(static_cast<size_t>(threads));
        for (int i = 1; i < threads; ++i) others.emplace_back(work);
    } catch (const std::system_error&) { // the system gives no more threads
    } catch (const std::bad_alloc&) {    // or no memory for them
    }
    work();
    for (std::thread& thread : others) thread.join();
}

// work(first, count), which must not throw, of every piece of so many things, on all processors or as many as are said.
template <class Work>
void in_pieces(size_t things, size_t piece, const Work& work, int most_threads = available_processors()) {
    const size_t pieces = (things + piece - 1) / piece;
    const size_t workers = std::min(pieces, static_cast<size_t>(most_threads));
    std::atomic<size_t> next{0};
    on_threads(static_cast<int>(workers), [&] {
        for (size_t i = 0; (i = next.fetch_add(1)) < pieces;) work(i * piece, std::min(piece, things - i * piece));
    });
}

// The same of work that may throw. After the first exception no further piece begins; it is thrown here when all that
// had begun have ended.
template <class Work>
void in_throwing_pieces(size_t things, size_t piece, const Work& work, int most_threads = available_processors()) {
    std::atomic<bool> failed{false};
    std::exception_ptr failure; // written by whoever sets `failed`
    const auto caught = [&](size_t first, size_t count) {
        if (failed) return;
        try {
            work(first, count);
        } catch (...) {
            if (!failed.exchange(true)) failure = std::current_exception();
        }
    };
    in_pieces(things, piece, caught, most_threads);
    if (failure) std::rethrow_exception(failure);
}

constexpr size_t kPieceNumbers = size_t{1} << 16; // what a thread takes at a time of work on single numbers

} // namespace hw4
