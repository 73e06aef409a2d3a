// What a run tells its user: the breakdown of --time, the JSON of --json, the picture of --trace.
#pragma once

#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/run/pipeline.h"
#include "src/run/timeline.h"

namespace hw4 {

struct RunFigures {
    TimelineSummary stages;
    double total_seconds = 0;
    size_t host_peak_bytes = 0;
};

std::string time_table(const RunReport& report, const RunFigures& figures);
std::string json_text(const std::string& input, const RunReport& report, const RunFigures& figures);

// One case of many.
struct CaseReport {
    std::string input;
    std::string output;
    ExitCode code = ExitCode::ok;
    std::string message; // why it failed; what follows is told of others only
    double seconds = 0;
    Problem problem;
    EngineFacts engine;
    std::string output_crc32; // empty where nobody wants to know
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

// In the format that chrome://tracing and Perfetto open.
std::string trace_text(const Timeline& timeline);

} // namespace hw4
