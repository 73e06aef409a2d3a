// The way of the output from the engine to the writers: parts of computed chunks, in the order of the cases and their
// files; for each slot how many of its parts are still to be fetched, and for each case whether all are written.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

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

class PartQueue {
public:
    // Before the first part of a case: until done() with its end it counts as if a part were out.
    void hold(int of);
    void push(const OutputPart& part);
    // No more will be pushed.
    void close();

    // Writers: the next part; none after the last, or when the run stops.
    std::optional<OutputPart> pop();
    void fetched(int slot);
    // With a part that was popped nothing is left to do. True: that was the last of its case.
    bool done(const OutputPart& part);

    // Waits until every part pushed for the slot was fetched. Throws Stopped.
    void wait_fetched(int slot);
    // For any slot.
    void wait_all_fetched();

    // Nobody waits any longer.
    void stop();

private:
    struct OfCase {
        int64_t left = 0; // to be written
        bool ended = false;
    };

    bool can_pop() const { return !parts_.empty() && !(parts_.front().in_turn && turn_taken_); }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<OutputPart> parts_;
    std::map<int, int64_t> unfetched_; // by slot
    std::map<int, OfCase> cases_;      // by number
    bool turn_taken_ = false;
    bool closed_ = false;
    bool stopped_ = false;
};

} // namespace hw4
