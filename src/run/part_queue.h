// The way of the output from the engine to the writers: parts of computed chunks, in file order, and for each slot how
// many of its parts are still to be fetched.
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
    int64_t file_row; // and in the file
    int64_t rows;
};

class PartQueue {
public:
    void push(const OutputPart& part);
    // No more will be pushed.
    void close();

    // Writers: the next part; none after the last, or when the run stops.
    std::optional<OutputPart> pop();
    void fetched(int slot);

    // Waits until every part pushed for the slot was fetched. Throws Stopped.
    void wait_fetched(int slot);

    // Nobody waits any longer.
    void stop();

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<OutputPart> parts_;
    std::map<int, int64_t> unfetched_; // by slot
    bool closed_ = false;
    bool stopped_ = false;
};

} // namespace hw4
