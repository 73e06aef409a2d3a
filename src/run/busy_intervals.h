// How long a stage was busy, when several streams do the same stage at overlapping times: the length of the union
// of its intervals, not their sum.
#pragma once

#include <algorithm>
#include <vector>

namespace hw4 {

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

} // namespace hw4
