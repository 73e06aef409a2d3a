// The command lines of the timers: problems, counts, and how a run ends. No CUDA here, so that it can be tested
// anywhere.
#pragma once

#include <array>
#include <cstdio>
#include <exception>
#include <limits>
#include <sstream>
#include <string>

#include "src/base/error.h"
#include "src/base/numbers.h"
#include "src/bench/sampling.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

constexpr int kMostRuns = 1000000;

[[noreturn]] inline void usage_error(const std::string& what) { throw Error(ExitCode::usage, what); }

// "4,16384,64"
inline Problem parse_shape(const std::string& text) {
    std::array<int64_t, 3> sizes{};
    std::istringstream stream(text);
    for (int64_t& size : sizes) {
        std::string field;
        std::getline(stream, field, ',');
        const auto value = whole_number(field, 1, 1 << 30);
        if (!value) usage_error("shape '" + text + "': need B,N,d");
        size = *value;
    }
    if (!stream.eof()) usage_error("shape '" + text + "': need B,N,d");
    return {sizes[0], sizes[1], sizes[2]};
}

inline Element parse_element(const std::string& text) {
    for (const Element element : kEveryElement)
        if (text == name_of(element)) return element;
    usage_error("--elements '" + text + "': need float32, bf16 or fp16");
}

inline int parse_count(const char* option, const std::string& text, int most) {
    const auto value = whole_number(text, 1, most);
    if (!value)
        usage_error("--" + std::string(option) + " '" + text + "': need a whole number from 1 to " +
                    std::to_string(most));
    return static_cast<int>(*value);
}

inline int parse_runs(const std::string& text) { return parse_count("runs", text, kMostRuns); }

// 0 for "auto".
inline int parse_launches(const std::string& text) {
    return text == "auto" ? 0 : parse_count("launches", text, kMostLaunches);
}

// Bytes; "all" is as much as there may be.
inline size_t parse_scratch(const std::string& text) {
    constexpr int64_t kMostMib = int64_t{1} << 30;
    if (text == "all") return std::numeric_limits<size_t>::max();
    const auto value = whole_number(text, 0, kMostMib);
    if (!value)
        usage_error("--scratch-mib '" + text + "': need all or a whole number from 0 to " + std::to_string(kMostMib));
    return static_cast<size_t>(*value) << 20;
}

// What main does: a failure is one line on stderr and its exit code.
template <class Run>
int run_program(const char* name, Run run) {
    try {
        run();
        return static_cast<int>(ExitCode::ok);
    } catch (const Error& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return static_cast<int>(error.code());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return static_cast<int>(ExitCode::internal);
    }
}

} // namespace hw4::gpu
