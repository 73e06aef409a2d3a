// What a run tells its user: the breakdown of --time, the JSON of --json, the picture of --trace.
#pragma once

#include <string>

#include "pipeline/pipeline.h"
#include "timeline.h"

namespace hw4 {

struct RunFigures {
    TimelineSummary stages;
    double total_seconds = 0;
    size_t host_peak_bytes = 0;
};

// The most memory this process has had in use, in bytes; 0 where the system does not say.
size_t host_peak_bytes();

std::string time_table(const RunReport& report, const RunFigures& figures);
std::string json_text(const std::string& input, const Shape& shape, const RunReport& report, const RunFigures& figures);

// In the format that chrome://tracing and Perfetto open.
std::string trace_text(const Timeline& timeline);

} // namespace hw4
