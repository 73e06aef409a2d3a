// Memory as Linux reports it.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace hw4 {

// A line of /proc with a number of kibibytes, in bytes; `unknown` where there is no such line.
inline size_t reported_bytes(const char* file, const char* line, size_t unknown) {
    std::ifstream lines(file);
    for (std::string word; lines >> word;) {
        size_t kibibytes = 0;
        if (word == line && lines >> kibibytes) return kibibytes * 1024;
    }
    return unknown;
}

// The peak memory of this process; 0 where the system does not report it. Not getrusage(), whose ru_maxrss starts with
// the parent's value.
inline size_t host_peak_bytes() { return reported_bytes("/proc/self/status", "VmHWM:", 0); }

} // namespace hw4
