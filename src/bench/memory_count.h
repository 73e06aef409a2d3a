// Counts what a measurement has allocated, and refuses what is more than there is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

namespace hw4::bench {

// Caught where a pass is measured: it becomes a row, not an error.
struct OutOfMemory : std::exception {
    OutOfMemory(size_t bytes_wanted, size_t bytes_free) : wanted(bytes_wanted), free(bytes_free) {}
    const char* what() const noexcept override { return "out of memory"; }

    size_t wanted;
    size_t free;
};

class MemoryCount {
public:
    explicit MemoryCount(size_t most) : most_(most) {}

    size_t in_use() const { return in_use_; }
    size_t peak() const { return peak_; }
    size_t free() const { return most_ - in_use_; }

    // Throws OutOfMemory.
    void take(size_t bytes) {
        if (bytes > free()) throw OutOfMemory(bytes, free());
        in_use_ += bytes;
        peak_ = std::max(peak_, in_use_);
    }
    void give_back(size_t bytes) { in_use_ -= bytes; }

private:
    size_t most_;
    size_t in_use_ = 0;
    size_t peak_ = 0;
};

// Bytes that are counted as long as it lives.
class Counted {
public:
    Counted() = default;
    Counted(MemoryCount& count, size_t bytes) : count_(&count), bytes_(bytes) { count.take(bytes); }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    Counted(Counted&& other) noexcept
        : count_(std::exchange(other.count_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Counted& operator=(Counted&& other) noexcept {
        std::swap(count_, other.count_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Counted() {
        if (count_ != nullptr) count_->give_back(bytes_);
    }

    size_t bytes() const { return bytes_; }

private:
    MemoryCount* count_ = nullptr;
    size_t bytes_ = 0;
};

} // namespace hw4::bench
