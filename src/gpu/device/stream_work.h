// Work of a stream between two events: waits for its end, and reports on the host's timeline when it ran.
#pragma once

#include <string>
#include <vector>

#include "src/gpu/device/memory.h"
#include "src/run/timeline.h"

namespace hw4::gpu {

class TimedWork {
public:
    explicit TimedWork(bool timed)
        : started_(timed ? make_event() : Event()),
          done_(make_event(cudaEventBlockingSync | (timed ? 0u : cudaEventDisableTiming))) {}

    // Called before and after work is put into the stream.
    void begin(cudaStream_t stream) {
        if (started_.get()) HW4_CUDA(cudaEventRecord(started_.get(), stream));
    }
    void end(cudaStream_t stream) { HW4_CUDA(cudaEventRecord(done_.get(), stream)); }

    void wait() const { HW4_CUDA(cudaEventSynchronize(done_.get())); }

    cudaEvent_t started() const { return started_.get(); }
    cudaEvent_t done() const { return done_.get(); }

private:
    Event started_;
    Event done_;
};

// The GPU's clock on the host's timeline; without a timeline it does nothing.
class StreamTimes {
public:
    // Streams are numbered: first the slots' streams, then the writers'.
    StreamTimes(Timeline* timeline, int slot_streams, int writer_streams) : timeline_(timeline) {
        if (timeline == nullptr) return;
        for (int i = 0; i < slot_streams; ++i) add_track("stream " + std::to_string(i));
        for (int i = 0; i < writer_streams; ++i) add_track("copy-out stream " + std::to_string(i));
        zero_ = make_event();
        HW4_CUDA(cudaEventRecord(zero_.get()));
        HW4_CUDA(cudaEventSynchronize(zero_.get()));
        zero_seconds_ = timeline->now();
    }

    bool wanted() const { return timeline_ != nullptr; }

    // Adds work that is done.
    void add(const TimedWork& work, int stream, Stage stage, size_t bytes) const {
        if (!wanted()) return;
        timeline_->add(
            {tracks_[static_cast<size_t>(stream)], stage, seconds(work.started()), seconds(work.done()), bytes});
    }

private:
    void add_track(const std::string& name) { tracks_.push_back(timeline_->add_track(name, true)); }

    double seconds(cudaEvent_t event) const {
        float milliseconds = 0;
        HW4_CUDA(cudaEventElapsedTime(&milliseconds, zero_.get(), event));
        return zero_seconds_ + milliseconds * 1e-3;
    }

    Timeline* timeline_;
    std::vector<int> tracks_; // by stream
    Event zero_;
    double zero_seconds_ = 0;
};

// Several works that are waited for together. Their events are reused.
class TimedWorks {
public:
    // The next one, on that stream; the caller calls its begin() and end().
    TimedWork& add(int stream, size_t bytes, bool timed) {
        if (used_ == list_.size()) list_.emplace_back(timed);
        Entry& entry = list_[used_++];
        entry.stream = stream;
        entry.bytes = bytes;
        return entry.work;
    }

    // Waits for all, adds them to the timeline and clears the list.
    void settle(Stage stage, const StreamTimes& times) {
        for (size_t i = 0; i < used_; ++i) {
            list_[i].work.wait();
            times.add(list_[i].work, list_[i].stream, stage, list_[i].bytes);
        }
        used_ = 0;
    }

private:
    struct Entry {
        explicit Entry(bool timed) : work(timed) {}
        TimedWork work;
        int stream = 0;
        size_t bytes = 0;
    };
    std::vector<Entry> list_;
    size_t used_ = 0;
};

} // namespace hw4::gpu
