// What a run tells its user: the breakdown of --time, the JSON of --json, the picture of --trace.
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

// One of several who have computed a case together.
struct RankReport {
    std::string node;
    RunReport run;    // no device where it had nothing to do
    double began = 0; // seconds of its own timeline when all of them began to compute
    double flops = 0;
    RunFigures figures;
};

// What the ranks come to: the engine is that of the first that had one; memory and bytes are the sums, the seconds of a
// stage those of the rank in which it took longest. `in_one_process`: each rank's memory on the host is that of all.
RunReport together(const Problem& problem, const std::vector<RankReport>& ranks);
RunFigures together(const std::vector<RankReport>& ranks, bool in_one_process);

// The longest time of kernels over the mean; 1 is best.
double imbalance(const std::vector<RankReport>& ranks);

// `ranks`: where there are several.
std::string time_table(const RunReport& report, const RunFigures& figures, const std::vector<RankReport>& ranks = {});
std::string json_text(const std::string& input, const RunReport& report, const RunFigures& figures,
                      const std::vector<RankReport>& ranks = {});

// One case of many.
struct CaseReport {
    CaseNames names;
    ExitCode code = ExitCode::ok;
    std::string message = ""; // why it failed; what follows is told of others only
    double seconds = 0;
    Problem problem{};
    EngineFacts engine{};
    std::string output_crc32 = ""; // empty where nobody wants to know
};

// All of them.
struct CasesReport {
    int64_t cases = 0;
    int64_t failed = 0;
    double flops = 0; // of those that did not fail, as the memory is
    size_t device_bytes = 0;
    int readers = 0;
    int writers = 0;
    size_t staging_bytes = 0;

    void add(const CaseReport& settled);
};

// "t04.in<tab>(B, N, d): (80, 256, 64)<tab>Time: 0.079 seconds", with what a line cannot hold as \x09.
std::string case_line(const CaseReport& settled);
std::string time_table(const CasesReport& report, const RunFigures& figures);
// An object of the list that the next takes.
std::string json_entry(const CaseReport& settled);
std::string json_text(const std::vector<std::string>& entries, const CasesReport& report, const RunFigures& figures);

// In the format that chrome://tracing and Perfetto open: what trace_events() gives of each rank, with its own lines.
struct TraceOfRank {
    int rank = 0;
    std::string owner = ""; // before the names of its lines
    double later = 0;       // seconds after the picture's start when its timeline began
};
std::string trace_events(const Timeline& timeline, const TraceOfRank& of);
std::string trace_text(const std::vector<std::string>& events_of_ranks);

} // namespace hw4
