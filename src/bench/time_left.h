// How long the rest of a sweep will take, by the arithmetic that is left of it.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "src/bench/cell.h"

namespace hw4::bench {

class TimeLeft {
public:
    explicit TimeLeft(const std::vector<Cell>& cells) {
        for (const Cell& cell : cells) left_ += weight(cell);
    }

    // A cell is over, measured in so many seconds; one that took none, because its row was there, says nothing.
    void done(const Cell& cell, double seconds) {
        left_ -= weight(cell);
        if (seconds <= 0) return;
        seconds_ += seconds;
        measured_ += weight(cell);
    }

    // "about 40 s left"; nothing while nothing was measured.
    std::string text() const {
        if (measured_ <= 0) return "";
        const double seconds = left_ * seconds_ / measured_;
        char words[48];
        if (seconds < 100)
            std::snprintf(words, sizeof words, "about %.0f s left", seconds);
        else
            std::snprintf(words, sizeof words, "about %.0f min left", seconds / 60);
        return words;
    }

private:
    // Small cells take their time too: warm-up, data, checks.
    static double weight(const Cell& cell) {
        constexpr double kOfAnyCell = 1e12;
        double flops = kOfAnyCell;
        for (const Pass pass : kPasses)
            if (cell.wants(pass)) flops += flops_of(cell, pass);
        return flops;
    }

    double left_ = 0;
    double measured_ = 0;
    double seconds_ = 0;
};

} // namespace hw4::bench
