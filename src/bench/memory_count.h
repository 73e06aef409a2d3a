// Counts the allocations of a measurement, refuses those beyond the limit, and logs a run's allocations and frees with
// their times.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace hw4::bench {

// Purposes of memory, by names that all workbenches share.
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
    uint64_t address = 0; // as if no two allocations ever had the same address
    size_t bytes = 0;
    const char* purpose = "";
};

struct MemoryEvent {
    enum class Kind { taken, given_back, refused };

    Kind kind;
    double seconds; // since the log's start
    Allocation allocation;
    size_t free_bytes = 0; // for a refusal: the memory that was free
};

class MemoryLog {
public:
    const std::vector<MemoryEvent>& events() const { return events_; }

    void taken(const Allocation& allocation) {
        events_.reserve(events_.size() + held_ + 2); // so that each can be freed without further memory
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
    size_t held_ = 0; // allocated and not yet freed
};

// Caught where a pass is measured: becomes a row, not an error.
struct OutOfMemory : std::exception {
    OutOfMemory(size_t bytes_wanted, size_t bytes_free) : wanted(bytes_wanted), free(bytes_free) {}
    const char* what() const noexcept override { return "out of memory"; }

    size_t wanted;
    size_t free;
};

class MemoryCount {
public:
    // `log`: also records each event.
    explicit MemoryCount(size_t most, MemoryLog* log = nullptr) : most_(most), log_(log) {}

    size_t in_use() const { return in_use_; }
    size_t peak() const { return peak_; }
    size_t free() const { return most_ - in_use_; }

    // Throws OutOfMemory where less is free.
    void need(size_t bytes, const char* purpose) {
        if (bytes > free()) refuse(bytes, free(), purpose);
    }
    // Called also where the system has less memory than it reported.
    [[noreturn]] void refuse(size_t bytes, size_t free_bytes, const char* purpose) {
        if (log_ != nullptr) log_->refused({0, bytes, purpose}, free_bytes);
        throw OutOfMemory(bytes, free_bytes);
    }
    // Like need(), and counts the bytes. Call it after the allocation: refused bytes are in no peak.
    Allocation take(size_t bytes, const char* purpose) {
        need(bytes, purpose);
        const Allocation allocation{next_, bytes, purpose};
        if (log_ != nullptr && bytes > 0) log_->taken(allocation);
        next_ += (bytes + kPlace - 1) / kPlace * kPlace;
        in_use_ += bytes;
        peak_ = std::max(peak_, in_use_);
        return allocation;
    }
    void give_back(const Allocation& allocation) noexcept {
        if (log_ != nullptr && allocation.bytes > 0) log_->given_back(allocation);
        in_use_ -= allocation.bytes;
    }

private:
    static constexpr uint64_t kPlace = 512; // alignment of addresses, the same as PyTorch's

    size_t most_;
    MemoryLog* log_;
    uint64_t next_ = kPlace; // the next address
    size_t in_use_ = 0;
    size_t peak_ = 0;
};

// Bytes that are counted as long as the object lives.
class Counted {
public:
    Counted() = default;
    // Counts after `allocate` has succeeded; it is not called for more than the limit.
    template <class Allocate>
    Counted(MemoryCount& count, size_t bytes, const char* purpose, const Allocate& allocate) : count_(&count) {
        count.need(bytes, purpose);
        allocate();
        allocation_ = count.take(bytes, purpose);
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    Counted(Counted&& other) noexcept
        : count_(std::exchange(other.count_, nullptr)), allocation_(std::exchange(other.allocation_, {})) {}
    Counted& operator=(Counted&& other) noexcept {
        std::swap(count_, other.count_);
        std::swap(allocation_, other.allocation_);
        return *this;
    }
    ~Counted() {
        if (count_ != nullptr) count_->give_back(allocation_);
    }

private:
    MemoryCount* count_ = nullptr;
    Allocation allocation_;
};

} // namespace hw4::bench
