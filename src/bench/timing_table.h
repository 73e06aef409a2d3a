// What a timer prints of each kernel: a row of a table where somebody reads it, a line of CSV, or one of JSON for other
// programs. No CUDA here, so that it can be tested anywhere.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "src/bench/sample_statistics.h"
#include "src/bench/sampling.h"
#include "src/io/case_values.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

enum class TimingForm { table, csv, json };

// One kernel on one shape and kind of values.
struct TimedKernel {
    std::string kernel;
    bool chosen = false; // by hw4, for this shape on this card
    Problem problem;
    Distribution kind;
    Timing timing;
};

inline std::string table_head() {
    return "kernel              B,N,d              kind       median ms    p20 ms    p80 ms  TFLOP/s  samples\n";
}

inline std::string csv_head() {
    return "kernel,chosen,batches,tokens,dim,mask,kind,launches,samples,median_s,p20_s,p80_s,tflop_per_s\n";
}

inline std::string table_row(const TimedKernel& row) {
    const Problem& problem = row.problem;
    const std::string shape = std::to_string(problem.batches) + "," + std::to_string(problem.queries) + "," +
                              std::to_string(problem.dim) + (problem.mask == Mask::causal ? " causal" : "");
    const double median = bench::median(row.timing.seconds);
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, " %9.4f %9.4f %9.4f %8.2f %8zu", median * 1e3,
                  bench::quantile(row.timing.seconds, 0.2) * 1e3, bench::quantile(row.timing.seconds, 0.8) * 1e3,
                  problem.flops() / median * 1e-12, row.timing.seconds.size());
    const auto padded = [](std::string text, size_t width) {
        text.resize(std::max(text.size(), width), ' ');
        return text;
    };
    return padded(row.kernel + (row.chosen ? " *" : ""), 19) + " " + padded(shape, 18) + " " +
           padded(spelling_of(row.kind), 10) + numbers + "\n";
}

inline std::string csv_row(const TimedKernel& row) {
    const Problem& problem = row.problem;
    const double median = bench::median(row.timing.seconds);
    char numbers[128];
    std::snprintf(numbers, sizeof numbers, "%d,%zu,%.9g,%.9g,%.9g,%.6g\n", static_cast<int>(row.timing.launches),
                  row.timing.seconds.size(), median, bench::quantile(row.timing.seconds, 0.2),
                  bench::quantile(row.timing.seconds, 0.8), problem.flops() / median * 1e-12);
    return row.kernel + "," + (row.chosen ? "true" : "false") + "," + std::to_string(problem.batches) + "," +
           std::to_string(problem.queries) + "," + std::to_string(problem.dim) + "," + name_of(problem.mask) + "," +
           spelling_of(row.kind) + "," + numbers;
}

} // namespace hw4::gpu
