// Device memory in equal parts, which stays from case to case and is made anew where one needs more of it.
#pragma once

#include <utility>

#include "src/gpu/device/memory.h"

namespace hw4::gpu {

class Arena {
public:
    int parts() const { return parts_; }
    size_t bytes() const { return bytes_; }
    void* part(int index) const {
        return bytes_ == 0 ? nullptr : static_cast<char*>(memory_.get()) + static_cast<size_t>(index) * part_bytes_;
    }

    // Whether there are so many parts of so many bytes as it is.
    bool holds(int parts, size_t part_bytes) const { return parts <= parts_ && part_bytes <= part_bytes_; }

    // So many parts, each at least so large. What was in it is lost, and nobody may be at work there. Where memory does
    // not allow it, there are none.
    void make(int parts, size_t part_bytes) {
        const size_t aligned = (part_bytes + kAlignment - 1) / kAlignment * kAlignment;
        const size_t needed = static_cast<size_t>(parts) * aligned;
        if (needed > bytes_) {
            clear();
            memory_ = make_scratch(needed);
            bytes_ = needed;
        }
        parts_ = parts;
        part_bytes_ = bytes_ / static_cast<size_t>(parts) / kAlignment * kAlignment;
    }

    void clear() {
        parts_ = 0;
        part_bytes_ = bytes_ = 0;
        const Scratch freed = std::move(memory_);
    }

private:
    static constexpr size_t kAlignment = 512; // of a part, as cudaMalloc aligns its memory and rows want theirs

    Scratch memory_;
    size_t bytes_ = 0;
    int parts_ = 0;
    size_t part_bytes_ = 0;
};

} // namespace hw4::gpu
