// When every stage of a run was at work, and on what: for --time, --json and --trace.
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
    context,  // making the context
    pin,      // the staging buffers
    allocate, // the slots
    load,     // the kernel's code to the GPU
    prepare,  // the output file's room and pages
    read,
    check,
    copy_in,
    kernel,
    copy_out,
    write,
    release, // giving back what the engine has
};
constexpr int kStages = 13;

const char* name_of(Stage stage);

// One line of the picture: a thread of the host or a stream of the GPU.
struct Track {
    std::string name;
    bool on_gpu;
};

struct Span {
    int track;
    Stage stage;
    double from; // seconds since the timeline's start
    double to;
    size_t bytes; // moved or looked at; 0 where bytes are not the point
};

struct StageUse {
    double seconds = 0; // in which it was busy, on however many threads or streams
    size_t bytes = 0;
};

struct TimelineSummary {
    std::array<StageUse, kStages> stages;
    double overlap = 0; // how many stages were busy at once, on average over the time in which any was

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

    // Once every thread that adds has ended.
    const std::vector<Track>& tracks() const { return tracks_; }
    const std::vector<Span>& spans() const { return spans_; }

private:
    Clock::time_point start_;
    std::mutex mutex_;
    std::vector<Track> tracks_;
    std::vector<Span> spans_;
};

// Where a thread writes down what it does. Without a timeline it does nothing.
class SpanRecorder {
public:
    SpanRecorder() = default;
    SpanRecorder(Timeline* timeline, const std::string& track) : timeline_(timeline) {
        if (timeline != nullptr) track_ = timeline->add_track(track, false);
    }

    // What `work` returns; `bytes` are those it handles.
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
