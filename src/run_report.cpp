#include "run_report.h"

#include <array>
#include <cstdio>
#include <utility>

#include "contract.h"
#include "options.h"

namespace hw4 {
namespace {

std::array<std::pair<const char*, double>, 6> stages(const StageSeconds& s) {
    return {{{"context", s.context},
             {"read", s.read},
             {"copy_in", s.copy_in},
             {"kernel", s.kernel},
             {"copy_out", s.copy_out},
             {"write", s.write}}};
}

std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", x);
    return text;
}

// A JSON string. File names are bytes; what is not plain ASCII is escaped byte by byte, so the file is valid
// whatever the name.
std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (byte < 0x20 || byte >= 0x7f) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", byte);
            out += escape;
        } else {
            out += c;
        }
    }
    return out + "\"";
}

double tera_per_second(const Shape& shape, const RunReport& report) {
    return report.seconds.kernel > 0 ? shape.flops() / report.seconds.kernel * 1e-12 : 0.0;
}

} // namespace

std::string time_table(const RunReport& report, double total_seconds) {
    std::string table;
    char line[128];
    const auto add = [&](const char* name, double seconds) {
        std::snprintf(line, sizeof line, "  %-9s %9.3f ms\n", name, seconds * 1e3);
        table += line;
    };
    for (const auto& [name, seconds] : stages(report.seconds)) add(name, seconds);
    add("total", total_seconds);
    return table + "  on " + report.device + " (" + report.device_name + "), kernel " + report.kernel + ", " +
           std::to_string(report.chunk_batches) + " batches at a time\n";
}

std::string json_text(const std::string& input, const Shape& shape, const RunReport& report, double total_seconds) {
    std::string json = "{\n";
    const auto field = [&](const std::string& name, const std::string& value, const char* end = ",\n") {
        json += "  " + quoted(name) + ": " + value + end;
    };
    field("hw4_version", quoted(kVersion));
    field("contract", quoted(kContractName));
    field("input", quoted(input));
    field("batches", std::to_string(shape.batches));
    field("tokens", std::to_string(shape.tokens));
    field("dim", std::to_string(shape.dim));
    field("device", quoted(report.device));
    field("device_name", quoted(report.device_name));
    field("kernel", quoted(report.kernel));
    field("streams", std::to_string(report.streams));
    field("copies", quoted(report.copies));
    field("threads", std::to_string(report.threads));
    field("chunk_batches", std::to_string(report.chunk_batches));
    for (const auto& [name, seconds] : stages(report.seconds)) field(std::string(name) + "_seconds", number(seconds));
    field("total_seconds", number(total_seconds));
    field("flop", number(shape.flops()));
    field("kernel_tflop_per_second", number(tera_per_second(shape, report)), "\n");
    return json + "}\n";
}

} // namespace hw4
