#include "src/run/timeline.h"

#include <algorithm>
#include <new>
#include <utility>

namespace hw4 {
namespace {

// How long a stage was busy, when several streams do the same stage at overlapping times: the length of the union
// of its intervals, not their sum.
class BusyIntervals {
public:
    // Seconds since any common start.
    void add(double from, double to) { intervals_.push_back({from, to}); }

    double seconds() const {
        std::vector<Interval> sorted = intervals_;
        std::sort(sorted.begin(), sorted.end(), [](const Interval& a, const Interval& b) { return a.from < b.from; });
        double busy = 0;
        double covered_to = sorted.empty() ? 0 : sorted.front().from;
        for (const auto& [from, to] : sorted) {
            const double start = std::max(from, covered_to);
            busy += std::max(0.0, to - start);
            covered_to = std::max(covered_to, to);
        }
        return busy;
    }

private:
    struct Interval {
        double from;
        double to;
    };
    std::vector<Interval> intervals_;
};

} // namespace

const char* name_of(Stage stage) {
    constexpr std::array<const char*, kStages> names = {"driver",   "context", "pin",    "allocate", "load",
                                                        "prepare",  "read",    "check",  "copy_in",  "kernel",
                                                        "copy_out", "write",   "release"};
    return names[static_cast<size_t>(stage)];
}

TimelineSummary summarise(const std::vector<Span>& spans) {
    std::array<BusyIntervals, kStages> busy;
    BusyIntervals any;
    TimelineSummary summary;
    for (const Span& span : spans) {
        busy[static_cast<size_t>(span.stage)].add(span.from, span.to);
        any.add(span.from, span.to);
        summary[span.stage].bytes += span.bytes;
    }
    double sum = 0;
    for (size_t i = 0; i < busy.size(); ++i) sum += summary.stages[i].seconds = busy[i].seconds();
    const double covered = any.seconds();
    summary.overlap = covered > 0 ? sum / covered : 0;
    return summary;
}

int Timeline::add_track(std::string name, bool on_gpu) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tracks_.push_back({std::move(name), on_gpu});
    return static_cast<int>(tracks_.size()) - 1;
}

void Timeline::add(const Span& span) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
        spans_.push_back(span);
    } catch (const std::bad_alloc&) { // the run goes on, only its picture has a gap
    }
}

} // namespace hw4
