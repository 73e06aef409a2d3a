#include "src/bench/row_json.h"

#include <cmath>

#include "src/base/json.h"
#include "src/base/version.h"
#include "src/bench/sampling.h"

namespace hw4::bench {
namespace {

constexpr int kFormat = 1;
constexpr double kMebibyte = 1024.0 * 1024.0; // lab5.py calls it MB

// JSON has no NaN and no infinities.
std::string number_or_null(double x) { return std::isfinite(x) ? json_number(x) : "null"; }

std::string strings_json(const std::vector<std::string>& strings) {
    std::string list;
    for (const std::string& string : strings) list += (list.empty() ? "" : ", ") + json_string(string);
    return "[" + list + "]";
}

// lab5.py's two fields. Unmeasured values are null, never 0.
std::string lab5_pass(const Row& row, Pass pass) {
    const std::vector<double>& seconds = row.of(pass).seconds;
    JsonFields fields;
    fields.add("time(s)", seconds.empty() ? "null" : json_number(mean(seconds)));
    fields.add("FLOPS(TFLOPs/s)",
               seconds.empty() ? "null" : json_number(flops_of(row.cell, pass) / mean(seconds) * 1e-12));
    return fields.text();
}

std::string parameters_json(const Cell& cell) {
    JsonFields fields;
    fields.add("impl", json_string(cell.impl));
    fields.add("kernel", text_or_null(cell.kernel));
    fields.add("dtype", json_string(name_of(cell.element)));
    fields.add("batch_size", cell.batch_size);
    fields.add("seq_len", cell.seq_len);
    fields.add("num_heads", cell.num_heads);
    fields.add("emb_dim", cell.emb_dim);
    fields.add("kv_heads", cell.key_heads());
    fields.add("queries", cell.decodes() ? cell.queries : cell.seq_len);
    fields.add("causal", cell.causal ? "true" : "false");
    std::vector<std::string> passes;
    for (const Pass pass : kPasses)
        if (cell.wants(pass)) passes.emplace_back(name_of(pass));
    fields.add("passes", strings_json(passes));
    fields.add("kind", json_string(cell.kind));
    fields.add("device", json_string(cell.device));
    fields.add("threads", int64_t{cell.threads});
    fields.add("warmup", cell.rules.warmup == Rules::kByTime ? "null" : std::to_string(cell.rules.warmup));
    fields.add("repeats", int64_t{cell.rules.repeats});
    fields.add("limit_s", json_number(cell.rules.limit_s));
    fields.add("timing", json_string(name_of(cell.rules.timing)));
    fields.add("cold", cell.rules.cold ? "true" : "false");
    fields.add("memory_limit", cell.memory_limit);
    fields.add("scratch", cell.scratch);
    return fields.text();
}

std::string error_json(const RowError& error) {
    JsonFields fields;
    fields.add("rows", error.rows);
    fields.add("largest", number_or_null(error.largest));
    fields.add("largest_value", number_or_null(error.reference));
    return fields.text();
}

std::string measured_json(const Row& row, Pass pass) {
    const Measured& measured = row.of(pass);
    JsonFields fields;
    fields.add("status", json_string(name_of(measured.status)));
    fields.add("reason", text_or_null(measured.reason));
    if (measured.status == Status::oom) {
        fields.add_size("wanted_bytes", measured.wanted_bytes);
        fields.add_size("free_bytes", measured.free_bytes);
    }
    if (measured.seconds.empty()) return fields.text();
    fields.add("kernel", json_string(measured.kernel));
    fields.add("revision", text_or_null(measured.revision));
    fields.add("launches", int64_t{measured.launches});
    fields.add("samples", numbers_json(measured.seconds));
    fields.add("median", json_number(median(measured.seconds)));
    fields.add("spread", json_number(spread(measured.seconds)));
    fields.add("deviation", json_number(deviation(measured.seconds)));
    if (!row.baseline.empty()) fields.add("ratio", measured.ratio > 0 ? json_number(measured.ratio) : "null");
    fields.add("flop", json_number(flops_of(row.cell, pass)));
    if (row.cell.decodes()) {
        const double rate = cache_bytes_of(row.cell) / median(measured.seconds);
        fields.add("cache_bytes", json_number(cache_bytes_of(row.cell)));
        fields.add("GB/s", json_number(rate * 1e-9));
        fields.add("share_of_peak", measured.memory_rate > 0 ? json_number(rate / measured.memory_rate) : "null");
    }
    fields.add_size("peak_bytes", measured.peak_bytes);
    fields.add_size("scratch_bytes", measured.scratch_bytes);
    if (pass != Pass::forward) fields.add_size("before_backward_bytes", measured.before_backward_bytes);
    const auto& forward = row.of(Pass::forward).seconds;
    const auto& backward = row.of(Pass::backward).seconds;
    if (pass == Pass::forward_backward)
        fields.add("sum_time(s)",
                   forward.empty() || backward.empty() ? "null" : json_number(mean(forward) + mean(backward)));
    fields.add_nested("error", error_json(measured.error));
    fields.add("output_crc32", text_or_null(measured.output_crc32));
    fields.add("as_reference", measured.as_reference ? (*measured.as_reference ? "true" : "false") : "null");
    return fields.text();
}

void add_frame(JsonFields& fields, const Frame& frame) {
    fields.add("version", int64_t{kFormat});
    fields.add("hw4_version", json_string(kVersion));
    fields.add("argv", strings_json(frame.argv));
    fields.add_nested("machine", frame.machine);
}

// With a frame the row is a file of its own.
std::string row_json(const Row& row, const Frame* frame) {
    JsonFields fields;
    for (const Pass pass : kPasses) fields.add_nested(name_of(pass), lab5_pass(row, pass));
    const bool ran = row.peak_bytes() > 0;
    fields.add("peak_memory_usage(MB)", ran ? json_number(static_cast<double>(row.peak_bytes()) / kMebibyte) : "null");
    JsonFields more;
    if (frame != nullptr) add_frame(more, *frame);
    more.add("status", json_string(name_of(row.status())));
    more.add("reason", text_or_null(row.reason()));
    if (!row.baseline.empty()) more.add("relative_to", json_string(row.baseline));
    more.add_nested("parameters", parameters_json(row.cell));
    for (const Pass pass : kPasses) more.add_nested(name_of(pass), measured_json(row, pass));
    fields.add_nested("hw4", more.text());
    return fields.text();
}

} // namespace

std::string text_or_null(const std::string& text) { return text.empty() ? "null" : json_string(text); }

std::string numbers_json(const std::vector<double>& numbers) {
    std::string list;
    for (const double number : numbers) list += (list.empty() ? "" : ", ") + json_number(number);
    return "[" + list + "]";
}

std::string cell_json(const Row& row, const Frame& frame) { return row_json(row, &frame) + "\n"; }

std::string list_start(const Frame& frame) {
    JsonFields fields;
    add_frame(fields, frame);
    fields.add("results", "[]");
    const std::string text = fields.text();
    return text.substr(0, text.rfind(']'));
}

std::string list_item(const Row& row, bool first) { return (first ? "" : ",\n  ") + indented(row_json(row, nullptr)); }

} // namespace hw4::bench
