// Threads that stay from one piece of work to the next: beside a few milliseconds of arithmetic, to start and end a
// dozen is not nothing.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "src/base/parallel.h"

namespace hw4 {

// Not to be called by several threads at the same time.
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

    // Runs `work`, which must not throw, on the calling thread and at most threads - 1 others, as on_threads() does
    // (parallel.h). Whoever has not begun when the calling thread is done does not begin: there is nothing left.
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
    // To so many others, or as many as the system gives.
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
            work_(); // which stays until nobody works
            lock.lock();
            if (--working_ == 0) all_done_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable all_done_;
    std::function<void()> work_;
    int places_ = 0;  // of others who may begin
    int working_ = 0; // others who have begun
    bool ended_ = false;
    std::vector<std::thread> others_;
};

// By a crew or, where there is none, by threads of this work alone.
template <class Work>
void on_threads(Crew* crew, int threads, const Work& work) {
    if (crew != nullptr) return crew->run(threads, work);
    on_threads(threads, work);
}

} // namespace hw4
