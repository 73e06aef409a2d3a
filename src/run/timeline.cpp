#include "src/run/timeline.h"

#include <algorithm>
#include <new>
#include <utility>

namespace hw4 {
namespace {

// The start and the end, in seconds since any common start.
using Interval = std::pair<double, double>;

// How long a stage was busy, when several streams do the same stage at overlapping times: the length of the union
// of its intervals, not their sum.
double busy_seconds(std::vector<Interval> intervals) {
    std::sort(intervals.begin(), intervals.end());
    double busy = 0;
    double covered_to = intervals.empty() ? 0 : intervals.front().first;
    for (const auto& [from, to] : intervals) {
        busy += std::max(0.0, to - std::max(from, covered_to));
        covered_to = std::max(covered_to, to);
    }
    return busy;
}

} // namespace

const char* name_of(Stage stage) {
    constexpr std::array<const char*, kStages> names = {"driver",   "context", "pin",    "allocate", "load",
                                                        "prepare",  "read",    "check",  "copy_in",  "kernel",
                                                        "copy_out", "write",   "release"};
    return names[static_cast<size_t>(stage)];
}

TimelineSummary summarise(const std::vector<Span>& spans) {
    std::array<std::vector<Interval>, kStages> of_stage;
    std::vector<Interval> all;
    TimelineSummary summary;
    for (const Span& span : spans) {
        of_stage[static_cast<size_t>(span.stage)].emplace_back(span.from, span.to);
        all.emplace_back(span.from, span.to);
        summary[span.stage].bytes += span.bytes;
    }
    double sum = 0;
    for (size_t i = 0; i < of_stage.size(); ++i) sum += summary.stages[i].seconds = busy_seconds(of_stage[i]);
    const double covered = busy_seconds(std::move(all));
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
    } catch (const std::bad_alloc&) { // the run continues with a gap in its trace
    }
}

} // namespace hw4
