#include "src/commands/bench_values.h"

#include "src/base/error.h"
#include "src/base/numbers.h"
#include "src/base/standard_streams.h"
#include "src/bench/cell.h"

namespace hw4::bench {
namespace {

constexpr double kMostSeconds = 1e6;

} // namespace

void usage_error(const std::string& what) { throw Error(ExitCode::usage, what + "; see bench --help"); }

void refuse_value(const char* option, const std::string& text, const std::string& need) {
    usage_error("--" + std::string(option) + " '" + text + "': need " + need);
}

void refuse_name(const char* option, const std::string& text, const std::string& word, const char* need,
                 const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    refuse_value(option, text, need + list + did_you_mean(word, names));
}

Action take_options(int argc, char** argv, const option* options,
                    const std::function<bool(int code, const char* value)>& take) {
    opterr = 0; // one line of our own instead of getopt's
    optind = 0; // start over, also when a test parses twice
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":hV", options, nullptr)) != -1;) {
        if (take(code, optarg)) continue;
        switch (code) {
        case 'h':
        case kHelp: return Action::help;
        case 'V':
        case kVersionOption: return Action::version;
        default: usage_error(why_refused(code, argv, options));
        }
    }
    return Action::run;
}

std::vector<int64_t> parse_numbers(const char* option, const std::string& text, int64_t least, int64_t most) {
    const auto numbers = number_list(text, least, most);
    if (!numbers)
        refuse_value(option, text,
                     "whole numbers from " + std::to_string(least) + " to " + std::to_string(most) +
                         ", such as 512,1k..16k*2");
    return *numbers;
}

int parse_count(const char* option, const std::string& text, int most) {
    const auto value = whole_number(text, 1, most);
    if (!value) refuse_value(option, text, "a whole number from 1 to " + std::to_string(most));
    return static_cast<int>(*value);
}

std::string parse_name(const char* option, const std::string& name) {
    if (name.empty()) refuse_value(option, name, "a name");
    return name;
}

// As lab5.py refuses it.
std::string parse_json_name(const std::string& name) {
    if (!ends_in(name, ".json") && !is_standard_stream(name))
        refuse_value("output", name, "a name that ends in .json, or -");
    return name;
}

Device parse_device(const std::string& name) {
    if (name == "auto") return Device::automatic;
    if (name == "gpu") return Device::gpu;
    if (name == "cpu") return Device::cpu;
    refuse_value("device", name, "auto, gpu or cpu");
}

std::vector<int> parse_warmups(const std::string& text) {
    std::vector<int> warmups;
    for (const int64_t number : parse_numbers("warmup", text, 0, kMostRepeats))
        warmups.push_back(static_cast<int>(number));
    return warmups;
}

double parse_seconds(const std::string& text) {
    const auto seconds = decimal_number(text, 0, kMostSeconds);
    if (!seconds) refuse_value("limit", text, "seconds, from 0 to 1e6");
    return *seconds;
}

bool ends_in(const std::string& name, const std::string& ending) {
    return name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
}

} // namespace hw4::bench
