// When each stage of a run was active, and on what data: for --time, --json and --trace.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace hw4 {

enum class Stage {
    driver,   // starting the CUDA driver
    context,  // creating the context
    pin,      // pinning the staging buffers
    allocate, // allocating the slots
    load,     // loading the kernel's code to the GPU
    prepare,  // reserving the output file's space and pages
    read,
    check,
    copy_in,
    kernel,
    copy_out,
    write,
    release, // freeing the engine's resources
};
constexpr int kStages = 13;

const char* name_of(Stage stage);

// One line of the trace: a thread of the host or a stream of the GPU.
struct Track {
    std::string name;
    bool on_gpu;
};

struct Span {
    int track;
    Stage stage;
    double from; // seconds since the timeline's start
    double to;
    size_t bytes; // moved or examined; 0 where bytes do not matter
};

struct StageUse {
    double seconds = 0; // busy time, on any number of threads or streams
    size_t bytes = 0;
};

struct TimelineSummary {
    std::array<StageUse, kStages> stages;
    double overlap = 0; // busy stages at once, averaged over the time in which any was busy

    const StageUse& operator[](Stage stage) const { return stages[static_cast<size_t>(stage)]; }
    StageUse& operator[](Stage stage) { return stages[static_cast<size_t>(stage)]; }
};

TimelineSummary summarise(const std::vector<Span>& spans);

// Any thread may add to it.
class Timeline {
public:
    using Clock = std::chrono::steady_clock;

    explicit Timeline(Clock::time_point start = Clock::now()) : start_(start) {}

    double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
    int add_track(std::string name, bool on_gpu);
    void add(const Span& span) noexcept;

    // Call after every thread that adds has ended.
    const std::vector<Track>& tracks() const { return tracks_; }
    const std::vector<Span>& spans() const { return spans_; }

private:
    Clock::time_point start_;
    std::mutex mutex_;
    std::vector<Track> tracks_;
    std::vector<Span> spans_;
};

// Records what a thread does. Without a timeline it does nothing.
class SpanRecorder {
public:
    SpanRecorder() = default;
    SpanRecorder(Timeline* timeline, const std::string& track) : timeline_(timeline) {
        if (timeline != nullptr) track_ = timeline->add_track(track, false);
    }

    // Returns the result of `work`; `bytes` are those it handles.
    template <class Work>
    auto time(Stage stage, size_t bytes, const Work& work) const {
        const Stroke stroke(*this, stage, bytes);
        return work();
    }

private:
    class Stroke {
    public:
        Stroke(const SpanRecorder& recorder, Stage stage, size_t bytes)
            : recorder_(recorder), stage_(stage), bytes_(bytes),
              from_(recorder.timeline_ != nullptr ? recorder.timeline_->now() : 0) {}
        ~Stroke() {
            if (recorder_.timeline_ != nullptr)
                recorder_.timeline_->add({recorder_.track_, stage_, from_, recorder_.timeline_->now(), bytes_});
        }
        Stroke(const Stroke&) = delete;
        Stroke& operator=(const Stroke&) = delete;

    private:
        const SpanRecorder& recorder_;
        Stage stage_;
        size_t bytes_;
        double from_;
    };

    Timeline* timeline_ = nullptr;
    int track_ = 0;
};

} // namespace hw4
