// Speeds relative to one implementation: --relative-to.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/bench/row.h"
#include "src/bench/sampling.h"

namespace hw4::bench {

class Baseline {
public:
    // The name of an implementation, or of a requested kernel. Empty: rows have no ratios.
    explicit Baseline(std::string name) : name_(std::move(name)) {}

    // Sets the row's ratios: the baseline's median time over its own. The baseline was measured before it.
    void compare(Row& row) {
        if (name_.empty()) return;
        row.baseline = name_;
        if (row.cell.subject() == name_) rows_.push_back(row);
        const auto same = [&](const Row& other) { return other.cell.measures_as(row.cell); };
        const auto found = std::find_if(rows_.rbegin(), rows_.rend(), same); // the last: of the same element, if any
        if (found == rows_.rend()) return;
        for (const Pass pass : kPasses) {
            const std::vector<double>& base = found->of(pass).seconds;
            Measured& own = row.of(pass);
            if (!base.empty() && !own.seconds.empty()) own.ratio = median(base) / median(own.seconds);
        }
    }

private:
    std::string name_;
    std::vector<Row> rows_;
};

} // namespace hw4::bench
