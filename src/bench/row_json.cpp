#include "src/bench/row_json.h"

#include <cmath>

#include "src/base/error.h"
#include "src/base/json_fields.h"
#include "src/base/json_value.h"
#include "src/base/version.h"
#include "src/bench/sample_statistics.h"

namespace hw4::bench {
namespace {

constexpr int kFormat = 1;
constexpr double kMebibyte = 1024.0 * 1024.0; // which lab5.py calls MB

// NaN and infinities are no JSON.
std::string number_or_null(double x) { return std::isfinite(x) ? json_number(x) : "null"; }
std::string known(double x) { return x > 0 ? json_number(x) : "null"; }
std::string text_or_null(const std::string& text) { return text.empty() ? "null" : json_string(text); }

std::string numbers_json(const std::vector<double>& numbers) {
    std::string list;
    for (const double number : numbers) list += (list.empty() ? "" : ", ") + json_number(number);
    return "[" + list + "]";
}

std::string strings_json(const std::vector<std::string>& strings) {
    std::string list;
    for (const std::string& string : strings) list += (list.empty() ? "" : ", ") + json_string(string);
    return "[" + list + "]";
}

// lab5.py's two fields. What was not measured is null, never 0.
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
    fields.add("spread_percent", json_number(cell.rules.spread_percent));
    fields.add("limit_s", json_number(cell.rules.limit_s));
    fields.add("timing", json_string(name_of(cell.rules.timing)));
    fields.add("cold", cell.rules.cold ? "true" : "false");
    fields.add("memory_limit", cell.memory_limit);
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
    fields.add("flop", json_number(flops_of(row.cell, pass)));
    fields.add_size("peak_bytes", measured.peak_bytes);
    fields.add("driver_bytes", measured.driver_bytes > 0 ? std::to_string(measured.driver_bytes) : "null");
    if (pass != Pass::forward) fields.add_size("before_backward_bytes", measured.before_backward_bytes);
    const auto& forward = row.of(Pass::forward).seconds;
    const auto& backward = row.of(Pass::backward).seconds;
    if (pass == Pass::forward_backward)
        fields.add("sum_time(s)",
                   forward.empty() || backward.empty() ? "null" : json_number(mean(forward) + mean(backward)));
    fields.add_nested("error", error_json(measured.error));
    fields.add("output_crc32", text_or_null(measured.output_crc32));
    fields.add("as_reference", measured.as_reference ? (*measured.as_reference ? "true" : "false") : "null");
    fields.add("clock_mhz", known(measured.clock_mhz));
    fields.add("power_w", known(measured.power_w));
    return fields.text();
}

void add_frame(JsonFields& fields, const Frame& frame) {
    fields.add("version", int64_t{kFormat});
    fields.add("hw4_version", json_string(kVersion));
    fields.add("argv", strings_json(frame.argv));
    fields.add_nested("machine", frame.machine);
}

// Of a file of its own where there is a frame.
std::string row_json(const Row& row, const Frame* frame) {
    JsonFields fields;
    for (const Pass pass : kPasses) fields.add_nested(name_of(pass), lab5_pass(row, pass));
    const bool ran = row.peak_bytes() > 0;
    fields.add("peak_memory_usage(MB)", ran ? json_number(static_cast<double>(row.peak_bytes()) / kMebibyte) : "null");
    JsonFields more;
    if (frame != nullptr) add_frame(more, *frame);
    more.add("status", json_string(name_of(row.status())));
    more.add("reason", text_or_null(row.reason()));
    more.add_nested("parameters", parameters_json(row.cell));
    for (const Pass pass : kPasses) more.add_nested(name_of(pass), measured_json(row, pass));
    fields.add_nested("hw4", more.text());
    return fields.text();
}

// ---- And back

template <class Names, class Value>
Value named(const Names& names, const std::string& name, Value otherwise) {
    for (const Value value : names)
        if (name == name_of(value)) return value;
    return otherwise;
}

int64_t whole(const JsonValue& object, const char* name, int64_t otherwise) {
    return static_cast<int64_t>(object.number_of(name, static_cast<double>(otherwise)));
}

size_t size_in(const JsonValue& object, const char* name) { return static_cast<size_t>(object.number_of(name, 0)); }

Cell read_cell(const JsonValue& object) {
    Cell cell;
    cell.impl = object.string_of("impl", "");
    cell.kernel = object.string_of("kernel", "");
    cell.element = named(kElements, object.string_of("dtype", ""), Element::float32);
    cell.batch_size = whole(object, "batch_size", 0);
    cell.seq_len = whole(object, "seq_len", 0);
    cell.num_heads = whole(object, "num_heads", 0);
    cell.emb_dim = whole(object, "emb_dim", 0);
    cell.causal = object.boolean_of("causal", false);
    for (bool& wanted : cell.passes) wanted = false;
    if (const JsonValue* const passes = object.find("passes"))
        for (const JsonValue& pass : passes->list)
            cell.passes[static_cast<size_t>(named(kPasses, pass.string, Pass::forward))] = true;
    cell.kind = object.string_of("kind", "");
    cell.device = object.string_of("device", "");
    cell.threads = static_cast<int>(whole(object, "threads", 0));
    cell.rules.warmup = static_cast<int>(whole(object, "warmup", Rules::kByTime));
    cell.rules.repeats = static_cast<int>(whole(object, "repeats", 0));
    cell.rules.spread_percent = object.number_of("spread_percent", 0);
    cell.rules.limit_s = object.number_of("limit_s", 0);
    cell.rules.timing = object.string_of("timing", "") == name_of(Timing::wall) ? Timing::wall : Timing::event;
    cell.rules.cold = object.boolean_of("cold", false);
    cell.memory_limit = whole(object, "memory_limit", 0);
    return cell;
}

Measured read_measured(const JsonValue& object) {
    Measured measured;
    measured.status = named(kStatuses, object.string_of("status", ""), Status::skipped);
    measured.reason = object.string_of("reason", "");
    measured.wanted_bytes = size_in(object, "wanted_bytes");
    measured.free_bytes = size_in(object, "free_bytes");
    measured.kernel = object.string_of("kernel", "");
    measured.revision = object.string_of("revision", "");
    measured.launches = static_cast<int>(whole(object, "launches", 0));
    if (const JsonValue* const samples = object.find("samples"))
        for (const JsonValue& sample : samples->list) measured.seconds.push_back(sample.number);
    measured.peak_bytes = size_in(object, "peak_bytes");
    measured.driver_bytes = size_in(object, "driver_bytes");
    measured.before_backward_bytes = size_in(object, "before_backward_bytes");
    if (const JsonValue* const error = object.find("error"))
        measured.error = {whole(*error, "rows", 0), error->number_of("largest", std::nan("")),
                          error->number_of("largest_value", std::nan(""))};
    measured.output_crc32 = object.string_of("output_crc32", "");
    const JsonValue* const as_reference = object.find("as_reference");
    if (as_reference != nullptr && as_reference->is(JsonValue::Kind::boolean))
        measured.as_reference = as_reference->boolean;
    measured.clock_mhz = object.number_of("clock_mhz", 0);
    measured.power_w = object.number_of("power_w", 0);
    return measured;
}

Row read_row(const JsonValue& object, const std::string& name) {
    const JsonValue* const more = object.find("hw4");
    const JsonValue* const parameters = more == nullptr ? nullptr : more->find("parameters");
    if (parameters == nullptr)
        throw Error(ExitCode::bad_data, name + R"(: no file of hw4 bench: a row has no "hw4" with "parameters")");
    Row row;
    row.cell = read_cell(*parameters);
    for (const Pass pass : kPasses)
        if (const JsonValue* const measured = more->find(name_of(pass))) row.of(pass) = read_measured(*measured);
    return row;
}

} // namespace

std::string file_json(const std::vector<Row>& rows, const Frame& frame) {
    if (rows.size() == 1) return row_json(rows.front(), &frame) + "\n";
    JsonFields fields;
    add_frame(fields, frame);
    std::string list;
    for (const Row& row : rows) list += (list.empty() ? "" : ",\n") + row_json(row, nullptr);
    fields.add_nested("results", "[" + list + "]");
    return fields.text() + "\n";
}

std::vector<Row> read_rows(const std::string& text, const std::string& name) {
    const JsonValue file = parse_json(text, name);
    const JsonValue* const results = file.find("results");
    if (results == nullptr) return {read_row(file, name)};
    std::vector<Row> rows;
    for (const JsonValue& row : results->list) rows.push_back(read_row(row, name));
    return rows;
}

} // namespace hw4::bench
