// Reports of a run: the breakdown of --time, the JSON of --json, the trace of --trace.
#pragma once

#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/run/case_options.h"
#include "src/run/pipeline.h"
#include "src/run/timeline.h"

namespace hw4 {

struct RunFigures {
    TimelineSummary stages;
    double total_seconds = 0;
    size_t host_peak_bytes = 0;
};

// One of several ranks that computed a case together.
struct RankReport {
    std::string node;
    RunReport run;    // no device where it had no work
    double began = 0; // seconds of its own timeline when all ranks began to compute
    double flops = 0;
    RunFigures figures;
};

// The ranks' combined report: the engine of the first rank that had one, sums of memory and bytes, and for each stage
// the seconds of its slowest rank. `in_one_process`: each rank's host memory is the memory of all.
RunReport together(const Problem& problem, const std::vector<RankReport>& ranks);
RunFigures together(const std::vector<RankReport>& ranks, bool in_one_process);

// The longest kernel time over the mean; 1 is best.
double imbalance(const std::vector<RankReport>& ranks);

// `ranks`: for several ranks.
std::string time_table(const RunReport& report, const RunFigures& figures, const std::vector<RankReport>& ranks = {});
std::string json_text(const std::string& input, const RunReport& report, const RunFigures& figures,
                      const std::vector<RankReport>& ranks = {});

// One case of many.
struct CaseReport {
    CaseNames names;
    ExitCode code = ExitCode::ok;
    std::string message = ""; // why it failed; the fields below are for the others
    double seconds = 0;
    Problem problem{};
    EngineFacts engine{};
    std::string output_crc32 = ""; // empty: not asked for
};

// All of them.
struct CasesReport {
    int64_t cases = 0;
    int64_t failed = 0;
    double flops = 0; // without failed cases, like the memory
    size_t device_bytes = 0;
    int readers = 0;
    int writers = 0;
    size_t staging_bytes = 0;

    void add(const CaseReport& settled);
};

// "t04.in<tab>(B, N, d): (80, 256, 64)<tab>Time: 0.079 seconds", with what a line cannot hold as \x09.
std::string case_line(const CaseReport& settled);
std::string time_table(const CasesReport& report, const RunFigures& figures);
// An object of the list in the next function's result.
std::string json_entry(const CaseReport& settled);
std::string json_text(const std::vector<std::string>& entries, const CasesReport& report, const RunFigures& figures);

// In the format of chrome://tracing and Perfetto: the events of each rank from trace_events(), on its own lines.
struct TraceOfRank {
    int rank = 0;
    std::string owner = ""; // prefix of its lines' names
    double later = 0;       // seconds from the trace's start to its timeline's
};
std::string trace_events(const Timeline& timeline, const TraceOfRank& of);
std::string trace_text(const std::vector<std::string>& events_of_ranks);

} // namespace hw4
