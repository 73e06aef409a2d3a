// The way of the output from the engine to the writers: parts of computed chunks, in the order of the cases and their
// files; for each slot how many of its parts are still to be fetched, and for each case whether all are written.
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
    int64_t slot_row; // the first one, in the slot
    int64_t file_row; // and in the file, or in the part of it that is computed
    int64_t rows;
    int of = 0;           // the case, by its number in the run
    bool in_turn = false; // to be written before any other such part is begun
};

// After the last part of a case, whether there are any or not: a part without rows, of no slot.
inline OutputPart end_of_case(int number) { return {0, 0, 0, 0, number}; }

class PartQueue : public SharedState {
public:
    // Before the first part of a case: until done() with its end it counts as if a part were out.
    void hold(int of) {
        change([&] { ++cases_[of].left; });
    }
    void push(const OutputPart& part) {
        change([&] {
            // All that may fail before anything counts: another case may follow, and wait.
            int64_t& unfetched = unfetched_[part.slot];
            OfCase& of_case = cases_[part.of];
            parts_.push_back(part);
            ++of_case.left;
            unfetched += part.rows > 0 ? 1 : 0;
            of_case.ended = part.rows == 0;
        });
    }
    // No more will be pushed.
    void close() {
        change([this] { closed_ = true; });
    }

    // Writers: the next part; none after the last, or when the run stops.
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
    // With a part that was popped nothing is left to do. True: that was the last of its case.
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
        int64_t left = 0; // to be written
        bool ended = false;
    };

    bool can_pop() const { return !parts_.empty() && !(parts_.front().in_turn && turn_taken_); }

    std::deque<OutputPart> parts_;
    std::map<int, int64_t> unfetched_; // by slot
    std::map<int, OfCase> cases_;      // by number
    bool turn_taken_ = false;
    bool closed_ = false;
};

} // namespace hw4
