// Settings of a test run from the environment.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace hw4 {

// HW4_SOAK=1 (make soak) runs all cases. make test runs some of the cases that repeat each other.
// NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets the environment
inline bool soaks() { return std::getenv("HW4_SOAK") != nullptr; }

// HW4_TEST_THREADS: the number of threads that compute references. tests/run sets one, since it fills the processors
// with processes. Default: one thread per processor.
inline int reference_threads() {
    const char* text = std::getenv("HW4_TEST_THREADS"); // NOLINT(concurrency-mt-unsafe): as above
    return std::max(1, text != nullptr ? std::atoi(text) : static_cast<int>(std::thread::hardware_concurrency()));
}

} // namespace hw4
