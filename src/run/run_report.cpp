#include "src/run/run_report.h"

#include <cstdio>

#include "src/base/json.h"
#include "src/base/version.h"

namespace hw4 {
namespace {

constexpr Stage stage_at(int index) { return static_cast<Stage>(index); }

// Stages whose speed is in bytes.
bool moves_bytes(Stage stage) {
    switch (stage) {
    case Stage::read:
    case Stage::check:
    case Stage::copy_in:
    case Stage::copy_out:
    case Stage::write: return true;
    default: return false;
    }
}

double giga_per_second(const StageUse& use) {
    return use.seconds > 0 ? static_cast<double>(use.bytes) / use.seconds * 1e-9 : 0.0;
}

double tera_per_second(const Problem& problem, const RunFigures& figures) {
    const double seconds = figures.stages[Stage::kernel].seconds;
    return seconds > 0 ? problem.flops() / seconds * 1e-12 : 0.0;
}

std::string megabytes(size_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) * 1e-6);
    return text;
}

} // namespace

std::string time_table(const RunReport& report, const RunFigures& figures) {
    std::string table;
    char line[128];
    for (int i = 0; i < kStages; ++i) {
        const StageUse& use = figures.stages[stage_at(i)];
        std::snprintf(line, sizeof line, "  %-9s %9.3f ms", name_of(stage_at(i)), use.seconds * 1e3);
        table += line;
        if (moves_bytes(stage_at(i)) && use.bytes > 0) {
            std::snprintf(line, sizeof line, "  %12s  %7.2f GB/s", megabytes(use.bytes).c_str(), giga_per_second(use));
            table += line;
        }
        table += '\n';
    }
    std::snprintf(line, sizeof line, "  %-9s %9.3f ms  %.2f stages at once\n", "total", figures.total_seconds * 1e3,
                  figures.stages.overlap);
    const EngineFacts& engine = report.engine;
    return table + line + "  memory: " + megabytes(figures.host_peak_bytes) + " on the host, of which " +
           megabytes(report.staging_bytes) + " staging buffers; " + megabytes(engine.device_bytes) + " on the GPU\n" +
           "  on " + engine.device + " (" + engine.device_name + "), contract " +
           engine.contract->revision_of(*report.problem.operation) + ", kernel " + engine.kernel + ", " +
           std::to_string(engine.chunk_batches) + " batches at a time\n";
}

std::string json_text(const std::string& input, const RunReport& report, const RunFigures& figures) {
    std::string json = "{\n";
    const auto field = [&](const std::string& name, const std::string& value, const char* end = ",\n") {
        json += "  " + json_string(name) + ": " + value + end;
    };
    const EngineFacts& engine = report.engine;
    const Problem& problem = report.problem;
    field("hw4_version", json_string(kVersion));
    field("operation", json_string(problem.operation->name));
    field("contract", json_string(engine.contract->name));
    field("revision", json_string(engine.contract->revision_of(*problem.operation)));
    field("input", json_string(input));
    field("batches", std::to_string(problem.batches));
    field("heads", std::to_string(problem.heads));
    field("kv_heads", std::to_string(problem.kv_heads));
    field("queries", std::to_string(problem.queries));
    field("keys", std::to_string(problem.keys));
    field("dim", std::to_string(problem.dim));
    field("mask", json_string(name_of(problem.mask)));
    field("output_crc32", json_string(report.output_crc32));
    field("device", json_string(engine.device));
    field("device_name", json_string(engine.device_name));
    field("kernel", json_string(engine.kernel));
    field("streams", std::to_string(engine.streams));
    field("copies", json_string(engine.copies));
    field("threads", std::to_string(engine.threads));
    field("readers", std::to_string(report.readers));
    field("writers", std::to_string(report.writers));
    field("chunk_batches", std::to_string(engine.chunk_batches));
    field("queries_at_once", std::to_string(engine.queries_at_once));
    field("staging_bytes", std::to_string(report.staging_bytes));
    field("device_peak_bytes", std::to_string(engine.device_bytes));
    field("host_peak_bytes", std::to_string(figures.host_peak_bytes));
    for (int i = 0; i < kStages; ++i) {
        const std::string stage = name_of(stage_at(i));
        const StageUse& use = figures.stages[stage_at(i)];
        field(stage + "_seconds", json_number(use.seconds));
        if (!moves_bytes(stage_at(i))) continue;
        field(stage + "_bytes", std::to_string(use.bytes));
        field(stage + "_gb_per_second", json_number(giga_per_second(use)));
    }
    field("overlap", json_number(figures.stages.overlap));
    field("total_seconds", json_number(figures.total_seconds));
    field("flop", json_number(problem.flops()));
    field("kernel_tflop_per_second", json_number(tera_per_second(problem, figures)), "\n");
    return json + "}\n";
}

// The host and the GPU are two processes of the picture, their threads and streams its lines.
std::string trace_text(const Timeline& timeline) {
    const auto place = [&](int track) {
        const bool on_gpu = timeline.tracks()[static_cast<size_t>(track)].on_gpu;
        return "\"pid\": " + std::to_string(on_gpu ? 2 : 1) + ", \"tid\": " + std::to_string(track);
    };
    const auto name_tag = [](const char* kind, const std::string& where, const std::string& name) {
        return R"({"ph": "M", "name": ")" + std::string(kind) + "\", " + where + R"(, "args": {"name": )" +
               json_string(name) + "}}";
    };
    std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    text += name_tag("process_name", R"("pid": 1)", "host") + ",\n" + name_tag("process_name", R"("pid": 2)", "GPU");
    for (size_t track = 0; track < timeline.tracks().size(); ++track)
        text += ",\n" + name_tag("thread_name", place(static_cast<int>(track)), timeline.tracks()[track].name);
    for (const Span& span : timeline.spans())
        text += R"(,
{"ph": "X", "name": ")" +
                std::string(name_of(span.stage)) + "\", " + place(span.track) + R"(, "ts": )" +
                json_number(span.from * 1e6) + R"(, "dur": )" + json_number((span.to - span.from) * 1e6) +
                R"(, "args": {"bytes": )" + std::to_string(span.bytes) + "}}";
    return text + "\n]}\n";
}

} // namespace hw4
