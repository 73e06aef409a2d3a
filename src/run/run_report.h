// What a run tells its user: the breakdown of --time, the JSON of --json, the picture of --trace.
#pragma once

#include <string>

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

// In the format that chrome://tracing and Perfetto open.
std::string trace_text(const Timeline& timeline);

} // namespace hw4
