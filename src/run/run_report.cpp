#include "src/run/run_report.h"

#include <algorithm>
#include <cstdio>

#include "src/base/json.h"
#include "src/base/version.h"
#include "src/problem/words.h"

namespace hw4 {
namespace {

constexpr double kShortest = 0.5e-6; // shorter ones would be a row of 0.000, mostly a stage that the engine lacks

constexpr Stage stage_at(int index) { return static_cast<Stage>(index); }

// Stages with a rate in bytes.
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

double tera_per_second(double flops, const RunFigures& figures) {
    const double seconds = figures.stages[Stage::kernel].seconds;
    return seconds > 0 ? flops / seconds * 1e-12 : 0.0;
}

std::string megabytes(size_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) * 1e-6);
    return text;
}

std::string stage_lines(const RunFigures& figures) {
    std::string table;
    char line[128];
    for (int i = 0; i < kStages; ++i) {
        const StageUse& use = figures.stages[stage_at(i)];
        if (use.seconds < kShortest) continue;
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
    return table + line;
}

std::string memory_line(const RunFigures& figures, size_t staging_bytes, size_t device_bytes) {
    return "  memory: " + megabytes(figures.host_peak_bytes) + " on the host, of which " + megabytes(staging_bytes) +
           " staging buffers" + (device_bytes > 0 ? "; " + megabytes(device_bytes) + " on the GPU" : "") + "\n";
}

void add_contract(JsonFields& fields, const Problem& problem, const EngineFacts& engine) {
    fields.add("operation", json_string(problem.operation->name));
    fields.add("contract", json_string(engine.contract->name));
    fields.add("revision", json_string(engine.contract->revision_of(*problem.operation)));
}

void add_problem(JsonFields& fields, const Problem& problem) {
    fields.add("batches", problem.batches);
    fields.add("heads", problem.heads);
    fields.add("kv_heads", problem.kv_heads);
    fields.add("queries", problem.queries);
    fields.add("keys", problem.keys);
    fields.add("dim", problem.key_dim());
    if (problem.is_padded()) fields.add("value_dim", problem.value_dim());
    fields.add("mask", json_string(name_of(problem.mask)));
    fields.add("window", problem.window);
    fields.add("scale", json_number(problem.scale));
    fields.add("element", json_string(name_of(problem.element)));
}

void add_engine(JsonFields& fields, const EngineFacts& engine) {
    fields.add("device", json_string(engine.device));
    fields.add("device_name", json_string(engine.device_name));
    fields.add("kernel", json_string(engine.kernel));
    fields.add("streams", int64_t{engine.streams});
    fields.add("copies", json_string(engine.copies));
    fields.add("threads", int64_t{engine.threads});
    fields.add("chunk_batches", engine.chunk_batches);
    fields.add("queries_at_once", engine.queries_at_once);
}

// Fields that runs of one case and of many have in common.
void add_run(JsonFields& fields, const CasesReport& report, const RunFigures& figures) {
    fields.add("readers", int64_t{report.readers});
    fields.add("writers", int64_t{report.writers});
    fields.add_size("staging_bytes", report.staging_bytes);
    fields.add_size("device_peak_bytes", report.device_bytes);
    fields.add_size("host_peak_bytes", figures.host_peak_bytes);
    for (int i = 0; i < kStages; ++i) {
        const std::string stage = name_of(stage_at(i));
        const StageUse& use = figures.stages[stage_at(i)];
        fields.add(stage + "_seconds", json_number(use.seconds));
        if (!moves_bytes(stage_at(i))) continue;
        fields.add_size(stage + "_bytes", use.bytes);
        fields.add(stage + "_gb_per_second", json_number(giga_per_second(use)));
    }
    fields.add("overlap", json_number(figures.stages.overlap));
    fields.add("total_seconds", json_number(figures.total_seconds));
    fields.add("flop", json_number(report.flops));
    fields.add("kernel_tflop_per_second", json_number(tera_per_second(report.flops, figures)));
}

double share_of(const RankReport& rank, const std::vector<RankReport>& ranks) {
    double all = 0;
    for (const RankReport& each : ranks) all += each.flops;
    return all > 0 ? rank.flops / all : 0;
}

std::string rank_lines(const std::vector<RankReport>& ranks) {
    std::string lines;
    char line[160];
    for (size_t i = 0; i < ranks.size(); ++i) {
        const RankReport& rank = ranks[i];
        std::snprintf(line, sizeof line, "  rank %-3zu  %5.1f %% of the FLOP, kernel %9.3f ms, total %9.3f ms, ", i,
                      100 * share_of(rank, ranks), rank.figures.stages[Stage::kernel].seconds * 1e3,
                      rank.figures.total_seconds * 1e3);
        lines += line +
                 (rank.run.engine.device.empty() ? "idle"
                                                 : rank.run.engine.device + " (" + rank.run.engine.device_name + ")") +
                 " on " + one_line(rank.node) + "\n";
    }
    if (ranks.empty()) return lines;
    std::snprintf(line, sizeof line, "  imbalance %.2f: the longest kernel time of a rank over the mean\n",
                  imbalance(ranks));
    return lines + line;
}

void add_ranks(JsonFields& fields, const std::vector<RankReport>& ranks) {
    std::string list;
    for (const RankReport& rank : ranks) {
        JsonFields one;
        one.add("node", json_string(rank.node));
        one.add("device", json_string(rank.run.engine.device));
        one.add("device_name", json_string(rank.run.engine.device_name));
        one.add("kernel", json_string(rank.run.engine.kernel));
        one.add("flop", json_number(rank.flops));
        for (int i = 0; i < kStages; ++i)
            one.add(std::string(name_of(stage_at(i))) + "_seconds",
                    json_number(rank.figures.stages[stage_at(i)].seconds));
        one.add("total_seconds", json_number(rank.figures.total_seconds));
        one.add_size("host_peak_bytes", rank.figures.host_peak_bytes);
        one.add_size("device_peak_bytes", rank.run.engine.device_bytes);
        list += (list.empty() ? "" : ", ") + one.text();
    }
    fields.add("ranks", "[" + list + "]");
    fields.add("imbalance", json_number(imbalance(ranks)));
}

} // namespace

RunReport together(const Problem& problem, const std::vector<RankReport>& ranks) {
    RunReport report;
    report.problem = problem;
    for (const RankReport& rank : ranks) {
        if (report.engine.device.empty()) report.engine = rank.run.engine;
        report.readers += rank.run.readers;
        report.writers += rank.run.writers;
        report.staging_bytes += rank.run.staging_bytes;
    }
    report.engine.device_bytes = 0;
    for (const RankReport& rank : ranks) report.engine.device_bytes += rank.run.engine.device_bytes;
    return report;
}

RunFigures together(const std::vector<RankReport>& ranks, bool in_one_process) {
    RunFigures all;
    for (const RankReport& rank : ranks) {
        for (int i = 0; i < kStages; ++i) {
            StageUse& use = all.stages[stage_at(i)];
            use.seconds = std::max(use.seconds, rank.figures.stages[stage_at(i)].seconds);
            use.bytes += rank.figures.stages[stage_at(i)].bytes;
        }
        all.stages.overlap += rank.figures.stages.overlap / static_cast<double>(ranks.size());
        all.total_seconds = std::max(all.total_seconds, rank.figures.total_seconds);
        const size_t peak = rank.figures.host_peak_bytes;
        all.host_peak_bytes = in_one_process ? std::max(all.host_peak_bytes, peak) : all.host_peak_bytes + peak;
    }
    return all;
}

double imbalance(const std::vector<RankReport>& ranks) {
    double longest = 0;
    double sum = 0;
    for (const RankReport& rank : ranks) {
        const double seconds = rank.figures.stages[Stage::kernel].seconds;
        longest = std::max(longest, seconds);
        sum += seconds;
    }
    return sum > 0 ? longest * static_cast<double>(ranks.size()) / sum : 1;
}

std::string time_table(const RunReport& report, const RunFigures& figures, const std::vector<RankReport>& ranks) {
    const EngineFacts& engine = report.engine;
    return stage_lines(figures) + memory_line(figures, report.staging_bytes, engine.device_bytes) + "  on " +
           engine.device + " (" + engine.device_name + "), contract " +
           engine.contract->revision_of(*report.problem.operation) + ", kernel " + engine.kernel + ", " +
           std::to_string(engine.chunk_batches) + (engine.chunk_batches == 1 ? " batch" : " batches") + " at a time\n" +
           rank_lines(ranks);
}

std::string json_text(const std::string& input, const RunReport& report, const RunFigures& figures,
                      const std::vector<RankReport>& ranks) {
    JsonFields fields;
    fields.add("hw4_version", json_string(kVersion));
    add_contract(fields, report.problem, report.engine);
    fields.add("input", json_string(input));
    add_problem(fields, report.problem);
    fields.add("output_crc32", json_string(report.output_crc32));
    if (!report.lse.empty()) {
        fields.add("lse", json_string(report.lse));
        fields.add("lse_crc32", json_string(report.lse_crc32));
    }
    add_engine(fields, report.engine);
    add_run(fields,
            {1, 0, report.problem.flops(), report.engine.device_bytes, report.readers, report.writers,
             report.staging_bytes},
            figures);
    if (!ranks.empty()) add_ranks(fields, ranks);
    return fields.text() + "\n";
}

void CasesReport::add(const CaseReport& settled) {
    ++cases;
    if (settled.code != ExitCode::ok) {
        ++failed;
        return;
    }
    flops += settled.problem.flops();
    device_bytes = std::max(device_bytes, settled.engine.device_bytes);
}

std::string case_line(const CaseReport& settled) {
    const auto [names, sizes] = sizes_of(settled.problem);
    char seconds[64];
    std::snprintf(seconds, sizeof seconds, "\tTime: %.3f seconds\n", settled.seconds);
    return one_line(settled.names.input) + "\t" + names + ": " + sizes + seconds;
}

std::string time_table(const CasesReport& report, const RunFigures& figures) {
    return stage_lines(figures) + memory_line(figures, report.staging_bytes, report.device_bytes) + "  " +
           std::to_string(report.cases) + (report.cases == 1 ? " case, " : " cases, ") + std::to_string(report.failed) +
           " failed\n";
}

std::string json_entry(const CaseReport& settled) {
    JsonFields fields;
    fields.add("input", json_string(settled.names.input));
    fields.add("output", json_string(settled.names.output));
    fields.add("exit_code", static_cast<int64_t>(settled.code));
    fields.add("message", json_string(settled.message));
    if (settled.code != ExitCode::ok) return fields.text();
    fields.add("seconds", json_number(settled.seconds));
    add_contract(fields, settled.problem, settled.engine);
    add_problem(fields, settled.problem);
    fields.add("output_crc32", json_string(settled.output_crc32));
    add_engine(fields, settled.engine);
    fields.add("flop", json_number(settled.problem.flops()));
    return fields.text();
}

std::string json_text(const std::vector<std::string>& entries, const CasesReport& report, const RunFigures& figures) {
    std::string list;
    for (const std::string& entry : entries) list += (list.empty() ? "" : ", ") + entry;
    JsonFields fields;
    fields.add("hw4_version", json_string(kVersion));
    fields.add("cases", "[" + list + "]");
    fields.add("failed", report.failed);
    add_run(fields, report, figures);
    return fields.text() + "\n";
}

// The host and the GPU of a rank are two processes in the trace; threads and streams are its lines.
std::string trace_events(const Timeline& timeline, const TraceOfRank& of) {
    const int host = 2 * of.rank + 1;
    const int gpu = host + 1;
    const auto in_process = [](int process) { return "\"pid\": " + std::to_string(process); };
    const auto place = [&](int track) {
        const bool on_gpu = timeline.tracks()[static_cast<size_t>(track)].on_gpu;
        return in_process(on_gpu ? gpu : host) + ", \"tid\": " + std::to_string(track);
    };
    const auto name_tag = [](const char* kind, const std::string& where, const std::string& name) {
        return R"({"ph": "M", "name": ")" + std::string(kind) + "\", " + where + R"(, "args": {"name": )" +
               json_string(name) + "}}";
    };
    std::string text = name_tag("process_name", in_process(host), of.owner + "host") + ",\n" +
                       name_tag("process_name", in_process(gpu), of.owner + "GPU");
    for (size_t track = 0; track < timeline.tracks().size(); ++track)
        text += ",\n" + name_tag("thread_name", place(static_cast<int>(track)), timeline.tracks()[track].name);
    for (const Span& span : timeline.spans())
        text += R"(,
{"ph": "X", "name": ")" +
                std::string(name_of(span.stage)) + "\", " + place(span.track) + R"(, "ts": )" +
                json_number((span.from + of.later) * 1e6) + R"(, "dur": )" + json_number((span.to - span.from) * 1e6) +
                R"(, "args": {"bytes": )" + std::to_string(span.bytes) + "}}";
    return text;
}

std::string trace_text(const std::vector<std::string>& events_of_ranks) {
    std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    for (const std::string& events : events_of_ranks) text += (&events == events_of_ranks.data() ? "" : ",\n") + events;
    return text + "\n]}\n";
}

} // namespace hw4
