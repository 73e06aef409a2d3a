// What the environment says of a run of the tests.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace hw4::test {

// HW4_SOAK=1 (make soak) asks for all cases. make test computes some of those that repeat each other.
// NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets the environment
inline bool soaks() { return std::getenv("HW4_SOAK") != nullptr; }

// How many threads compute references: HW4_TEST_THREADS. tests/run asks for one, since it fills the processors with
// processes. Default: a thread for each processor.
inline int reference_threads() {
    const char* text = std::getenv("HW4_TEST_THREADS"); // NOLINT(concurrency-mt-unsafe): as above
    return std::max(1, text != nullptr ? std::atoi(text) : static_cast<int>(std::thread::hardware_concurrency()));
}

} // namespace hw4::test
