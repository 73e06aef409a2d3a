#include "src/bench/row_json.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "src/base/error.h"
#include "src/base/json.h"
#include "src/base/version.h"
#include "src/bench/sampling.h"
#include "src/contracts/contract.h"

namespace hw4::bench {
namespace {

constexpr int kFormat = 1;
constexpr double kMebibyte = 1024.0 * 1024.0; // which lab5.py calls MB

// NaN and infinities are no JSON.
std::string number_or_null(double x) { return std::isfinite(x) ? json_number(x) : "null"; }
std::string known(double x) { return x > 0 ? json_number(x) : "null"; }

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
    fields.add("flop", json_number(flops_of(row.cell, pass)));
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

// As it would be written, in a line.
std::string text_of(const JsonValue& value) {
    switch (value.kind) {
    case JsonValue::Kind::null: return "null";
    case JsonValue::Kind::boolean: return value.boolean ? "true" : "false";
    case JsonValue::Kind::number: return json_number(value.number);
    case JsonValue::Kind::string: return json_string(value.string);
    case JsonValue::Kind::list: return "a list";
    case JsonValue::Kind::object: break;
    }
    return "an object";
}

// The fields of an object that has to have them.
class Fields {
public:
    Fields(const JsonValue& object, std::string where) : object_(object), where_(std::move(where)) {}

    [[noreturn]] void refuse(const char* name, const std::string& need) const {
        const JsonValue* const field = object_.find(name);
        throw Error(ExitCode::bad_data, where_ + ": " + json_string(name) +
                                            (field == nullptr ? " is missing" : " is " + text_of(*field)) + ", need " +
                                            need);
    }

    const JsonValue* find(const char* name) const { return object_.find(name); }
    // Nothing: it is not there, or null.
    const JsonValue* known(const char* name) const {
        const JsonValue* const field = object_.find(name);
        return field == nullptr || field->is(JsonValue::Kind::null) ? nullptr : field;
    }

    const JsonValue& of_kind(const char* name, JsonValue::Kind kind, const char* need) const {
        const JsonValue* const field = object_.find(name);
        if (field == nullptr || !field->is(kind)) refuse(name, need);
        return *field;
    }
    std::string string(const char* name) const { return of_kind(name, JsonValue::Kind::string, "a string").string; }
    bool boolean(const char* name) const { return of_kind(name, JsonValue::Kind::boolean, "true or false").boolean; }
    const std::vector<JsonValue>& list(const char* name) const {
        return of_kind(name, JsonValue::Kind::list, "a list").list;
    }
    double number(const char* name, double least) const {
        const double number = of_kind(name, JsonValue::Kind::number, "a number").number;
        if (number < least) refuse(name, "a number from " + json_number(least) + " on");
        return number;
    }
    int64_t whole(const char* name, int64_t least, int64_t most) const {
        const std::string need = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
        const double number = of_kind(name, JsonValue::Kind::number, need.c_str()).number;
        if (number != std::floor(number) || number < static_cast<double>(least) || number > static_cast<double>(most))
            refuse(name, need);
        return static_cast<int64_t>(number);
    }
    template <class Value, size_t kCount>
    Value named(const char* name, const Value (&values)[kCount]) const {
        const JsonValue* const field = object_.find(name);
        std::string names;
        for (const Value value : values) {
            if (field != nullptr && field->string == name_of(value)) return value;
            names += (names.empty() ? "" : ", ") + std::string(name_of(value));
        }
        refuse(name, "one of " + names);
    }

    // Where it is known; else 0, or nothing.
    size_t size_if_known(const char* name) const {
        return known(name) == nullptr ? 0 : static_cast<size_t>(whole(name, 0, kMostBytes));
    }
    double number_if_known(const char* name) const { return known(name) == nullptr ? 0 : number(name, 0); }
    std::string string_if_known(const char* name) const { return known(name) == nullptr ? "" : string(name); }

    static constexpr int64_t kMostBytes = int64_t{1} << 62;

private:
    const JsonValue& object_;
    std::string where_;
};

Cell read_cell(const Fields& fields) {
    constexpr Timing kTimings[] = {Timing::event, Timing::wall};
    Cell cell;
    cell.impl = fields.string("impl");
    cell.kernel = fields.string_if_known("kernel");
    cell.element = fields.named("dtype", kElements);
    cell.batch_size = fields.whole("batch_size", 1, kMostSize);
    cell.seq_len = fields.whole("seq_len", 1, kMostSize);
    cell.num_heads = fields.whole("num_heads", 1, kMostSize);
    cell.emb_dim = fields.whole("emb_dim", 1, kMostSize);
    cell.causal = fields.boolean("causal");
    for (bool& wanted : cell.passes) wanted = false;
    for (const JsonValue& name : fields.list("passes")) {
        const Pass* const pass = std::find_if(std::begin(kPasses), std::end(kPasses),
                                              [&](Pass known) { return name.string == name_of(known); });
        if (pass == std::end(kPasses)) fields.refuse("passes", "names of passes");
        cell.passes[static_cast<size_t>(*pass)] = true;
    }
    cell.kind = fields.string("kind");
    cell.device = fields.string("device");
    cell.threads = static_cast<int>(fields.whole("threads", 0, kMostThreads));
    if (fields.known("warmup") != nullptr)
        cell.rules.warmup = static_cast<int>(fields.whole("warmup", 0, kMostRepeats));
    cell.rules.repeats = static_cast<int>(fields.whole("repeats", 1, kMostRepeats));
    cell.rules.limit_s = fields.number("limit_s", 0);
    cell.rules.timing = fields.named("timing", kTimings);
    cell.rules.cold = fields.boolean("cold");
    cell.memory_limit = fields.whole("memory_limit", 0, Fields::kMostBytes);
    if (fields.known("scratch") != nullptr) cell.scratch = fields.whole("scratch", 0, Fields::kMostBytes);
    return cell;
}

std::vector<double> read_samples(const Fields& fields) {
    std::vector<double> seconds;
    if (fields.known("samples") == nullptr) return seconds;
    for (const JsonValue& sample : fields.list("samples")) {
        if (!sample.is(JsonValue::Kind::number) || !(sample.number > 0)) // by which rates are divided
            fields.refuse("samples", "seconds above 0 alone");
        seconds.push_back(sample.number);
    }
    return seconds;
}

Measured read_measured(const JsonValue& object, const std::string& where) {
    const Fields fields(object, where);
    Measured measured;
    measured.status = fields.named("status", kStatuses);
    measured.reason = fields.string_if_known("reason");
    measured.wanted_bytes = fields.size_if_known("wanted_bytes");
    measured.free_bytes = fields.size_if_known("free_bytes");
    measured.kernel = fields.string_if_known("kernel");
    measured.revision = fields.string_if_known("revision");
    if (fields.known("launches") != nullptr)
        measured.launches = static_cast<int>(fields.whole("launches", 1, kMostRepeats));
    measured.seconds = read_samples(fields);
    if (measured.status == Status::ok && measured.seconds.empty()) fields.refuse("samples", "some of a pass that ran");
    measured.peak_bytes = fields.size_if_known("peak_bytes");
    measured.scratch_bytes = fields.size_if_known("scratch_bytes");
    measured.before_backward_bytes = fields.size_if_known("before_backward_bytes");
    if (const JsonValue* const object_of_error = fields.known("error")) {
        const Fields error(*object_of_error, where + ": error");
        measured.error = {error.whole("rows", 0, kMostSize), object_of_error->number_of("largest", std::nan("")),
                          object_of_error->number_of("largest_value", std::nan(""))};
    }
    measured.output_crc32 = fields.string_if_known("output_crc32");
    if (fields.known("as_reference") != nullptr) measured.as_reference = fields.boolean("as_reference");
    measured.clock_mhz = fields.number_if_known("clock_mhz");
    measured.power_w = fields.number_if_known("power_w");
    return measured;
}

const JsonValue& known_of(const JsonValue& object, const std::string& name) {
    const JsonValue* const more = object.find("hw4");
    if (more == nullptr || more->find("parameters") == nullptr)
        throw Error(ExitCode::bad_data, name + R"(: no file of hw4 bench: a row has no "hw4" with "parameters")");
    return *more;
}

Row read_row(const JsonValue& object, const std::string& name, const std::string& where) {
    const JsonValue& more = known_of(object, name);
    Row row;
    row.cell = read_cell(Fields(*more.find("parameters"), where));
    const Fields passes(more, where);
    const std::string pass_of_row = where + ": ";
    for (const Pass pass : kPasses)
        row.of(pass) = read_measured(passes.of_kind(name_of(pass), JsonValue::Kind::object, "what was measured"),
                                     pass_of_row + name_of(pass));
    return row;
}

using Machine = std::vector<std::pair<std::string, std::string>>;

Machine read_machine(const JsonValue& object) {
    Machine machine;
    for (const auto& [name, value] : object.object) machine.emplace_back(name, text_of(value));
    return machine;
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

RowFile read_file(const std::string& text, const std::string& name) {
    const JsonValue document = parse_json(text, name);
    const JsonValue* const results = document.find("results");
    const JsonValue& frame = results == nullptr ? known_of(document, name) : document;
    const Fields fields(frame, name);
    fields.whole("version", kFormat, kFormat);
    RowFile file;
    file.hw4_version = fields.string("hw4_version");
    if (const JsonValue* const machine = fields.known("machine")) file.machine = read_machine(*machine);
    if (results == nullptr) {
        file.rows.push_back(read_row(document, name, name));
        return file;
    }
    const std::string row_of_file = name + ": row ";
    for (const JsonValue& row : fields.list("results"))
        file.rows.push_back(read_row(row, name, row_of_file + std::to_string(file.rows.size() + 1)));
    return file;
}

Row read_answer(const std::string& text, const std::string& name, const Cell& cell) {
    const JsonValue document = parse_json(text, name);
    const JsonValue& more = known_of(document, name);
    Row row = row_without(cell, Status::skipped, "");
    const std::string pass_of_row = name + ": ";
    for (const Pass pass : kPasses)
        if (const JsonValue* const measured = more.find(name_of(pass)))
            row.of(pass) = read_measured(*measured, pass_of_row + name_of(pass));
    return row;
}

std::string why_not_taken(const Row& row, const RowFile& file, const Frame& frame) {
    if (file.hw4_version != kVersion) return "by hw4 " + file.hw4_version + ", this is " + kVersion;
    if (file.machine != read_machine(parse_json(frame.machine, "machine"))) return "on another machine";
    const Contract* const contract = find_contract(row.cell.impl);
    for (const Pass pass : kPasses) {
        const std::string& revision = row.of(pass).revision;
        if (revision.empty() || contract == nullptr) continue;
        const std::string now = contract->revision_of(operation_of(pass));
        if (revision != now) return std::string("under ").append(revision).append(", now it is ").append(now);
    }
    return "";
}

} // namespace hw4::bench
