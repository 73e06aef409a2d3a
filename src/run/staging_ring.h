// The way of the input from the readers to the engine: piece p is in buffer p % buffers. Readers take the pieces in
// order and fill them side by side; one thread takes them out again in order, whatever order they were filled in.
// Since a piece is only taken together with its buffer, the piece that is waited for always has one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "src/problem/domain.h"

namespace hw4 {

class StagingRing {
public:
    StagingRing(int64_t pieces, int buffers)
        : pieces_(pieces), buffers_(buffers), entries_(static_cast<size_t>(buffers)) {}

    int buffer_of(int64_t piece) const { return static_cast<int>(piece % buffers_); }
    int64_t pieces() const { return pieces_; }

    // Readers: the next piece, once its buffer is free; none when all are taken, one has failed, or the run stops.
    std::optional<int64_t> take();
    void filled(int64_t piece, const Findings& findings);
    void failed(int64_t piece, std::exception_ptr error);

    // The one taker: waits for the piece and returns what was found in it. Throws what its reader threw, or Stopped.
    Findings wait_filled(int64_t piece);
    void release(int64_t piece);

    // Nobody waits any longer.
    void stop();

private:
    struct Entry {
        bool filled = false;
        Findings findings;
        std::exception_ptr error;
    };
    Entry& entry_of(int64_t piece) { return entries_[static_cast<size_t>(buffer_of(piece))]; }
    void set_filled(int64_t piece, const Entry& entry);

    const int64_t pieces_;
    const int buffers_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Entry> entries_;
    int64_t next_ = 0;     // to be taken by a reader
    int64_t released_ = 0; // pieces before this one are out of the ring
    bool failed_ = false;  // what comes after a piece that cannot be read is not needed
    bool stopped_ = false;
};

} // namespace hw4
