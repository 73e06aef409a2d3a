// What a run tells its user: the course's two lines, the breakdown of --time, the JSON of --json.
#pragma once

#include <string>

#include "engine.h"

namespace hw4 {

std::string time_table(const RunReport& report, double total_seconds);
std::string json_text(const std::string& input, const Shape& shape, const RunReport& report, double total_seconds);

} // namespace hw4
