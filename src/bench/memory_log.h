// What a run takes and gives back, and when.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hw4::bench {

// What memory is for, by the names that all workbenches share.
namespace purpose {
inline constexpr const char* kInputs = "inputs";
inline constexpr const char* kO = "O";
inline constexpr const char* kGradients = "dQ, dK, dV";
inline constexpr const char* kRowStatistics = "row statistics";
inline constexpr const char* kForwardScratch = "scratch of forward";
inline constexpr const char* kBackwardScratch = "scratch of backward";
inline constexpr const char* kScores = "scores";
inline constexpr const char* kScoreGradients = "gradients of scores";
} // namespace purpose

struct Allocation {
    uint64_t address = 0; // as if no two of a count had ever shared a place
    size_t bytes = 0;
    const char* purpose = "";
};

struct MemoryEvent {
    enum class Kind { taken, given_back, refused };

    Kind kind;
    double seconds; // since the log began
    Allocation allocation;
    size_t free_bytes = 0; // of what is refused: what there was
};

class MemoryLog {
public:
    const std::vector<MemoryEvent>& events() const { return events_; }

    void taken(const Allocation& allocation) {
        events_.reserve(events_.size() + held_ + 2); // so that each can be given back, whatever memory is left
        ++held_;
        events_.push_back({MemoryEvent::Kind::taken, now(), allocation});
    }
    void given_back(const Allocation& allocation) noexcept {
        --held_;
        events_.push_back({MemoryEvent::Kind::given_back, now(), allocation});
    }
    void refused(const Allocation& wanted, size_t free_bytes) {
        events_.reserve(events_.size() + held_ + 1);
        events_.push_back({MemoryEvent::Kind::refused, now(), wanted, free_bytes});
    }

private:
    using Clock = std::chrono::steady_clock;

    double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

    Clock::time_point start_ = Clock::now();
    std::vector<MemoryEvent> events_;
    size_t held_ = 0; // taken and not yet given back
};

} // namespace hw4::bench
