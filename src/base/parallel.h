// Threads: one piece of work on several threads, threads with an owner, a common start, and persistent threads.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "src/base/error.h"

namespace hw4 {

// The processors this process may run on, which can be fewer than the machine has.
inline int available_processors() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// The set of these processors, only for comparisons; empty where the system does not report it.
inline std::string allowed_processors() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return "";
    return {reinterpret_cast<const char*>(&allowed), sizeof allowed};
}

// Runs `work`, which must not throw, on the calling thread and on threads - 1 others. There may be fewer threads than
// asked for, so `work` takes its pieces from a common counter.
template <class Work>
void on_threads(int threads, const Work& work) {
    std::vector<std::thread> others;
    try {
        others.reserve(static_cast<size_t>(threads));
        for (int i = 1; i < threads; ++i) others.emplace_back(work);
    } catch (const std::system_error&) { // no more threads
    } catch (const std::bad_alloc&) {    // or no memory for them
    }
    work();
    for (std::thread& thread : others) thread.join();
}

// Calls work(first, count), which must not throw, for each piece of the things, on at most `most_threads` threads.
template <class Work>
void in_pieces(size_t things, size_t piece, const Work& work, int most_threads = available_processors()) {
    const size_t pieces = (things + piece - 1) / piece;
    const size_t workers = std::min(pieces, static_cast<size_t>(most_threads));
    std::atomic<size_t> next{0};
    on_threads(static_cast<int>(workers), [&] {
        for (size_t i = 0; (i = next.fetch_add(1)) < pieces;) work(i * piece, std::min(piece, things - i * piece));
    });
}

// The same for work that may throw. After the first exception no further piece begins; it is rethrown here after all
// begun pieces have ended.
template <class Work>
void in_throwing_pieces(size_t things, size_t piece, const Work& work, int most_threads = available_processors()) {
    std::atomic<bool> failed{false};
    std::exception_ptr failure; // written by the thread that sets `failed`
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

constexpr size_t kPieceNumbers = size_t{1} << 16; // the piece that a thread takes at a time

// Threads that end before their owner is destroyed.
class WorkerThreads {
public:
    WorkerThreads() = default;
    ~WorkerThreads() {
        for (std::thread& thread : threads_) thread.join();
    }
    WorkerThreads(const WorkerThreads&) = delete;
    WorkerThreads& operator=(const WorkerThreads&) = delete;

    // Runs body(0) ... body(count - 1), each in its own thread; a body must not throw. Fewer threads than asked for are
    // enough as long as there is one: the bodies share their work.
    template <class Body>
    void start(int count, const Body& body) {
        for (int i = 0; i < count; ++i) {
            try {
                threads_.emplace_back([body, i] { body(i); });
            } catch (const std::system_error&) {
                if (i == 0) throw Error(ExitCode::out_of_memory, "no thread can be started");
                return;
            }
        }
    }

private:
    std::vector<std::thread> threads_;
};

// Threads wait here for a common start. Opening the gate takes no memory and cannot fail, unlike a std::promise, whose
// destructor creates an exception for waiting threads.
class Gate {
public:
    void wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        opened_.wait(lock, [this] { return open_; });
    }
    void open() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            open_ = true;
        }
        opened_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable opened_;
    bool open_ = false;
};

// Threads that persist from one piece of work to the next: for a few milliseconds of arithmetic, starting and ending a
// dozen threads matters. Not to be called by several threads at the same time.
class Crew {
public:
    Crew() = default;
    ~Crew() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ended_ = true;
        }
        wake_.notify_all();
        for (std::thread& thread : others_) thread.join();
    }
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

    // Runs `work`, which must not throw, on the calling thread and at most threads - 1 others, as on_threads() does. A
    // thread that has not begun when the calling thread is done does not begin: no work is left.
    template <class Work>
    void run(int threads, const Work& work) {
        grow(threads - 1);
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            work_ = std::cref(work);
            places_ = std::min(threads - 1, static_cast<int>(others_.size()));
        }
        wake_.notify_all();
        work();
        std::unique_lock<std::mutex> lock(mutex_);
        places_ = 0;
        all_done_.wait(lock, [this] { return working_ == 0; });
    }

private:
    // Grows to this many other threads, or to as many as the system gives.
    void grow(int count) {
        try {
            while (static_cast<int>(others_.size()) < count) others_.emplace_back([this] { serve(); });
        } catch (const std::system_error&) { // no more threads
        } catch (const std::bad_alloc&) {    // or no memory for them
        }
    }

    void serve() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (true) {
            wake_.wait(lock, [this] { return ended_ || places_ > 0; });
            if (ended_) return;
            --places_;
            ++working_;
            lock.unlock();
            work_(); // returns when no thread works on it any more
            lock.lock();
            if (--working_ == 0) all_done_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable all_done_;
    std::function<void()> work_;
    int places_ = 0;  // for other threads that may begin
    int working_ = 0; // other threads that have begun
    bool ended_ = false;
    std::vector<std::thread> others_;
};

// Runs the work on a crew or, without one, on threads for this work alone.
template <class Work>
void on_threads(Crew* crew, int threads, const Work& work) {
    if (crew != nullptr) return crew->run(threads, work);
    on_threads(threads, work);
}

} // namespace hw4
