// Threads that end before their owner does.
#pragma once

#include <system_error>
#include <thread>
#include <vector>

#include "src/base/error.h"

namespace hw4 {

class WorkerThreads {
public:
    WorkerThreads() = default;
    ~WorkerThreads() {
        for (std::thread& thread : threads_) thread.join();
    }
    WorkerThreads(const WorkerThreads&) = delete;
    WorkerThreads& operator=(const WorkerThreads&) = delete;

    // body(0) ... body(count - 1), each in a thread of its own, and must not throw. Fewer threads than asked for is no
    // error as long as there is one: the bodies share their work.
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

} // namespace hw4
