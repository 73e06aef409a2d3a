// The input's path from the readers to the engine, one case after another: piece p of the run is in buffer p % buffers.
// Readers take the pieces in order, the next case's directly after a case's last, and fill them in parallel; one thread
// removes them in order. A piece is only taken together with its buffer, so the piece that this thread waits for always
// has one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "src/problem/domain.h"
#include "src/run/first_failure.h"

namespace hw4 {

struct StagedPiece {
    int of;         // number of the case in the run
    int64_t piece;  // within the case
    int64_t number; // within the run
};

struct FilledPiece {
    StagedPiece staged;
    Findings findings;
    std::exception_ptr error; // thrown by its reader
};

// The pieces of a case.
struct PiecesOfCase {
    int64_t pieces;
    int buffers;  // the most that they may occupy at once
    bool in_turn; // pieces are read one after another
};

class StagingRing : public SharedState {
public:
    explicit StagingRing(int buffers) : buffers_(buffers), entries_(static_cast<size_t>(buffers)) {}

    int buffer_of(const StagedPiece& staged) const { return static_cast<int>(staged.number % buffers_); }

    // Adds the next case.
    void add(const PiecesOfCase& pieces) {
        change([&] { cases_.push_back({pieces.pieces, pieces.buffers, pieces.in_turn}); });
    }
    // No more cases follow.
    void close() {
        change([this] { closed_ = true; });
    }

    // For readers: the next piece, once its buffer is free; none when all are taken, or the run stops. The pieces after
    // a failed one are not needed.
    std::optional<StagedPiece> take() {
        const auto all_taken = [this] { return closed_ && taking_ == added(); };
        const auto lock = wait_or_stop([&] {
            pass_cases_that_are_taken();
            return all_taken() || can_take();
        });
        if (stopped_ || all_taken()) return std::nullopt;
        Case& taken_from = case_of(taking_);
        ++taken_from.being_read;
        return StagedPiece{taking_, taken_from.taken++, next_++};
    }
    void filled(const StagedPiece& staged, const Findings& findings) { set_filled(staged, {true, findings, nullptr}); }
    void failed(const StagedPiece& staged, std::exception_ptr error) {
        set_filled(staged, {true, {}, std::move(error)});
    }

    // For the single taker, called in turn for each added case: waits for the case's next piece; returns none, once,
    // after the last. The taker must release a piece before it waits for the next. Throws Stopped.
    std::optional<FilledPiece> wait_filled(int of) {
        const auto lock = wait_for([&] { return entry_of(released_).filled || has_no_more(of); });
        if (has_no_more(of)) {
            forget_first();
            return std::nullopt;
        }
        const Entry& entry = entry_of(released_);
        return FilledPiece{{of, case_of(of).released, released_}, entry.findings, entry.error};
    }
    void release(const StagedPiece& staged) {
        change([&] {
            entry_of(staged.number) = {};
            ++released_;
            ++case_of(staged.of).released;
        });
    }

    // Any thread may call this: readers take no more pieces of the case. The taker still gets earlier pieces.
    void abandon(int of) {
        change([&] {
            if (of >= first_) case_of(of).end = case_of(of).taken; // otherwise all of it is out
        });
    }

private:
    struct Entry {
        bool filled = false;
        Findings findings;
        std::exception_ptr error;
    };
    struct Case {
        int64_t end = 0; // the number of its pieces to take
        int buffers = 0;
        bool in_turn = false;
        int64_t taken = 0;
        int64_t released = 0;
        int being_read = 0;
    };

    Entry& entry_of(int64_t number) { return entries_[static_cast<size_t>(number % buffers_)]; }
    int added() const { return first_ + static_cast<int>(cases_.size()); }
    Case& case_of(int number) { return cases_[static_cast<size_t>(number - first_)]; }

    void pass_cases_that_are_taken() {
        while (taking_ < added() && case_of(taking_).taken == case_of(taking_).end) ++taking_;
    }
    bool can_take() {
        if (taking_ == added() || next_ == released_ + buffers_) return false;
        const Case& next = case_of(taking_);
        return next.taken < next.released + next.buffers && !(next.in_turn && next.being_read > 0);
    }
    bool has_no_more(int of) {
        const Case& taken_from = case_of(of);
        return taken_from.released == taken_from.taken && taken_from.taken == taken_from.end;
    }
    void forget_first() {
        cases_.pop_front();
        ++first_;
        taking_ = std::max(taking_, first_);
    }
    void set_filled(const StagedPiece& staged, const Entry& entry) {
        change([&] {
            entry_of(staged.number) = entry;
            Case& read = case_of(staged.of);
            --read.being_read;
            if (entry.error) read.end = read.taken;
        });
    }

    const int buffers_;
    std::vector<Entry> entries_;
    std::deque<Case> cases_; // from number first_ on
    int first_ = 0;
    int taking_ = 0;       // the case of the next piece
    int64_t next_ = 0;     // the next piece for a reader
    int64_t released_ = 0; // pieces before this one have left the ring
    bool closed_ = false;
};

} // namespace hw4
