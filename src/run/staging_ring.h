// The way of the input from the readers to the engine, one case after the other: piece p of the run is in buffer
// p % buffers. Readers take the pieces in order, those of the next case straight after a case's last, and fill them
// side by side; one thread takes them out again in order, whatever order they were filled in. Since a piece is only
// taken together with its buffer, the piece that is waited for always has one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "src/problem/domain.h"

namespace hw4 {

struct StagedPiece {
    int of;         // the case, by its number in the run
    int64_t piece;  // of the case
    int64_t number; // of the run
};

struct FilledPiece {
    StagedPiece staged;
    Findings findings;
    std::exception_ptr error; // what its reader threw
};

// How a case comes.
struct PiecesOfCase {
    int64_t pieces;
    int buffers;  // that they may take at once
    bool in_turn; // one is read after the other
};

class StagingRing {
public:
    explicit StagingRing(int buffers) : buffers_(buffers), entries_(static_cast<size_t>(buffers)) {}

    int buffer_of(const StagedPiece& staged) const { return static_cast<int>(staged.number % buffers_); }

    // The next case.
    void add(const PiecesOfCase& pieces);
    // There is none.
    void close();

    // Readers: the next piece, once its buffer is free; none when all are taken, or the run stops. What comes after a
    // piece that has failed is not needed.
    std::optional<StagedPiece> take();
    void filled(const StagedPiece& staged, const Findings& findings);
    void failed(const StagedPiece& staged, std::exception_ptr error);

    // The one taker, for each case that was added, in turn: waits for its next piece; none, once, after the last. A
    // piece has to be released before the next is waited for. Throws Stopped.
    std::optional<FilledPiece> wait_filled(int of);
    void release(const StagedPiece& staged);

    // By any thread: no more pieces of the case are taken. The taker still gets those that were.
    void abandon(int of);

    // Nobody waits any longer.
    void stop();

private:
    struct Entry {
        bool filled = false;
        Findings findings;
        std::exception_ptr error;
    };
    struct Case {
        int64_t end = 0; // what is to be taken of it
        int buffers = 0;
        bool in_turn = false;
        int64_t taken = 0;
        int64_t released = 0;
        int being_read = 0;
    };

    Entry& entry_of(int64_t number) { return entries_[static_cast<size_t>(number % buffers_)]; }
    int added() const { return first_ + static_cast<int>(cases_.size()); }
    Case& case_of(int number) { return cases_[static_cast<size_t>(number - first_)]; }
    void pass_cases_that_are_taken();
    bool can_take();
    bool has_no_more(int of);
    void forget_first();
    void set_filled(const StagedPiece& staged, const Entry& entry);

    const int buffers_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Entry> entries_;
    std::deque<Case> cases_; // from number first_ on
    int first_ = 0;
    int taking_ = 0;       // the case that the next piece is of
    int64_t next_ = 0;     // to be taken by a reader
    int64_t released_ = 0; // pieces before this one are out of the ring
    bool closed_ = false;
    bool stopped_ = false;
};

} // namespace hw4
