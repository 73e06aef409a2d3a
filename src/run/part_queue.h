// The output's path from the engine to the writers: parts of computed chunks, in the order of the cases and their
// files; counts for each slot the parts that are not yet fetched, and for each case the parts not yet written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "src/run/first_failure.h"

namespace hw4 {

// Consecutive rows of the output.
struct OutputPart {
    int slot;
    int64_t slot_row; // first row in the slot
    int64_t file_row; // first row in the file, or in the computed part of it
    int64_t rows;
    int of = 0;           // number of the case in the run
    bool in_turn = false; // must be written before any other such part begins
};

// Follows the last part of a case, even a case without parts: a part without rows or a slot.
inline OutputPart end_of_case(int number) { return {0, 0, 0, 0, number}; }

class PartQueue : public SharedState {
public:
    // Before the first part of a case: counts as an unwritten part until done() with the case's end.
    void hold(int of) {
        change([&] { ++cases_[of].left; });
    }
    void push(const OutputPart& part) {
        change([&] {
            // Allocate before counting: another case may follow, and wait.
            int64_t& unfetched = unfetched_[part.slot];
            OfCase& of_case = cases_[part.of];
            parts_.push_back(part);
            ++of_case.left;
            unfetched += part.rows > 0 ? 1 : 0;
            of_case.ended = part.rows == 0;
        });
    }
    // No more parts follow.
    void close() {
        change([this] { closed_ = true; });
    }

    // For writers: the next part; none after the last, or when the run stops.
    std::optional<OutputPart> pop() {
        const auto lock = wait_or_stop([this] { return can_pop() || (closed_ && parts_.empty()); });
        if (stopped_ || parts_.empty()) return std::nullopt;
        const OutputPart part = parts_.front();
        parts_.pop_front();
        if (part.in_turn) turn_taken_ = true;
        return part;
    }
    void fetched(int slot) {
        change([&] { --unfetched_[slot]; });
    }
    // A popped part needs no more work. True: it was the last of its case.
    bool done(const OutputPart& part) {
        bool last = false;
        change([&] {
            if (part.in_turn) turn_taken_ = false;
            const auto found = cases_.find(part.of);
            last = --found->second.left == 0 && found->second.ended;
            if (last) cases_.erase(found);
        });
        return last;
    }

    // Waits until every part pushed for the slot was fetched. Throws Stopped.
    void wait_fetched(int slot) {
        wait_for([&] { return unfetched_[slot] == 0; });
    }
    // For any slot.
    void wait_all_fetched() {
        const auto none_left = [](const auto& slot) { return slot.second == 0; };
        wait_for([&] { return std::all_of(unfetched_.begin(), unfetched_.end(), none_left); });
    }

private:
    struct OfCase {
        int64_t left = 0; // parts not yet written
        bool ended = false;
    };

    bool can_pop() const { return !parts_.empty() && !(parts_.front().in_turn && turn_taken_); }

    std::deque<OutputPart> parts_;
    std::map<int, int64_t> unfetched_; // keyed by slot
    std::map<int, OfCase> cases_;      // keyed by number
    bool turn_taken_ = false;
    bool closed_ = false;
};

} // namespace hw4
