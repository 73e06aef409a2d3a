// For tests of waiting: the test must not act before a thread sleeps.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace hw4 {

constexpr std::chrono::seconds kPatience{10};

// Whether all other threads of this process sleep. It looks at one after another: where some threads wake others, it
// may report threads that never slept at the same time.
inline bool other_threads_sleep() {
    const std::string self = std::to_string(::syscall(SYS_gettid));
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        if (task.path().filename() == self) continue;
        std::ifstream file(task.path() / "stat");
        const std::string stat{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        const size_t name_end = stat.rfind(") ");
        const bool ended = name_end == std::string::npos; // after the folder was read
        if (!ended && stat[name_end + 2] != 'S') return false;
    }
    return true;
}

// Whether the condition became true within a time limit.
template <class Condition>
bool soon(const Condition& condition) {
    const auto patience = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > patience) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

inline bool other_threads_sleep_soon() { return soon(other_threads_sleep); }

} // namespace hw4
