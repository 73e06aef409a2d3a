#include "src/bench/tables.h"

#include <algorithm>
#include <cstdio>

#include "src/bench/sampling.h"

namespace hw4::bench {

std::string with_digits(const char* format, double x) {
    char text[32];
    std::snprintf(text, sizeof text, format, x);
    return text;
}

namespace {

using Fields = std::vector<std::string>;

constexpr double kMebibyte = 1024.0 * 1024.0;

// Four digits, whatever the size.
std::string milliseconds(double seconds) {
    const double ms = seconds * 1e3;
    return with_digits(ms < 1 ? "%.4f" : ms < 10 ? "%.3f" : ms < 100 ? "%.2f" : ms < 1000 ? "%.1f" : "%.0f", ms);
}

std::string rate(double flop, double seconds) {
    const double tera = flop / seconds * 1e-12;
    return with_digits(tera < 1 ? "%.4f" : tera < 10 ? "%.2f" : "%.1f", tera);
}

// Decoding steps are limited by what is read, and have no backward.
const Fields& column_names(bool decodes) {
    static const Fields names = {"impl",    "dtype",  "B",       "H",       "N",       "d",        "mask",  "fwd ms",
                                 "TFLOP/s", "bwd ms", "TFLOP/s", "both ms", "TFLOP/s", "peak MiB", "error", "status"};
    static const Fields decoding = {"impl",   "dtype",   "B",    "H",       "N",        "d",     "mask",
                                    "fwd ms", "TFLOP/s", "GB/s", "of peak", "peak MiB", "error", "status"};
    return decodes ? decoding : names;
}

std::string implementation(const Cell& cell) { return cell.kernel.empty() ? cell.impl : cell.impl + ":" + cell.kernel; }

// "ok", or what was not, and why.
std::string status_of(const Row& row) {
    if (row.status() != Status::ok) return std::string(name_of(row.status())) + ": " + row.reason();
    std::string others;
    for (const Pass pass : kPasses) {
        const Measured& measured = row.of(pass);
        if (measured.status != Status::ok && measured.status != Status::skipped)
            others += (others.empty() ? "; " : ", ") + std::string(name_of(pass)) + " " + name_of(measured.status);
    }
    return "ok" + others;
}

std::string largest_error(const Row& row) {
    double largest = -1;
    for (const Measured& measured : row.passes)
        if (measured.error.rows > 0) largest = worse(largest, measured.error.largest);
    return largest == -1 ? "" : with_digits("%.1e", largest);
}

// How fast K and V were read, and of how fast the memory is.
void add_memory_rate(Fields& fields, const Row& row) {
    const Measured& measured = row.of(Pass::forward);
    if (measured.seconds.empty()) {
        fields.insert(fields.end(), 2, "-");
        return;
    }
    const double rate = cache_bytes_of(row.cell) / median(measured.seconds);
    fields.push_back(with_digits(rate < 1e11 ? "%.1f" : "%.0f", rate * 1e-9));
    fields.push_back(measured.memory_rate > 0 ? with_digits("%.3f", rate / measured.memory_rate) : "-");
}

Fields fields_of(const Row& row) {
    const Cell& cell = row.cell;
    Fields fields = {implementation(cell),
                     name_of(cell.element),
                     std::to_string(cell.batch_size),
                     heads_of(cell),
                     tokens_of(cell),
                     cell.heads_divide() ? std::to_string(cell.emb_dim / cell.num_heads) : "-",
                     cell.causal ? "causal" : "none"};
    for (const Pass pass : kPasses) {
        if (cell.decodes() && pass != Pass::forward) continue;
        const std::vector<double>& seconds = row.of(pass).seconds;
        fields.push_back(seconds.empty() ? "-" : milliseconds(median(seconds)));
        fields.push_back(seconds.empty() ? "-" : rate(flops_of(cell, pass), median(seconds)));
    }
    if (cell.decodes()) add_memory_rate(fields, row);
    fields.push_back(row.peak_bytes() == 0 ? "-"
                                           : with_digits("%.1f", static_cast<double>(row.peak_bytes()) / kMebibyte));
    fields.push_back(largest_error(row));
    fields.push_back(status_of(row));
    return fields;
}

bool is_text(size_t column, size_t columns) { return column < 2 || column == 6 || column + 1 == columns; }

// A field is in quotes where it has a comma or a quote.
std::string csv_line(const Fields& fields) {
    std::string line;
    for (const std::string& field : fields) {
        std::string quoted;
        for (const char c : field) quoted += c == '"' ? "\"\"" : std::string(1, c);
        const bool plain = field.find_first_of(",\"\n") == std::string::npos;
        line += (plain ? field : "\"" + quoted + "\"") + ",";
    }
    line.back() = '\n';
    return line;
}

std::string number(double x) { return with_digits("%.9g", x); }

Fields csv_fields(const Row& row, Pass pass) {
    const Cell& cell = row.cell;
    const Measured& measured = row.of(pass);
    Fields fields = {cell.impl,
                     cell.kernel,
                     name_of(cell.element),
                     std::to_string(cell.batch_size),
                     std::to_string(cell.seq_len),
                     std::to_string(cell.num_heads),
                     std::to_string(cell.emb_dim),
                     std::to_string(cell.key_heads()),
                     std::to_string(cell.decodes() ? cell.queries : cell.seq_len),
                     cell.causal ? "1" : "0",
                     cell.rules.warmup == Rules::kByTime ? "" : std::to_string(cell.rules.warmup),
                     cell.device,
                     name_of(pass),
                     name_of(measured.status),
                     measured.reason};
    const bool ran = !measured.seconds.empty();
    const auto if_ran = [&](const std::string& text) { fields.push_back(ran ? text : ""); };
    if_ran(measured.kernel);
    if_ran(std::to_string(measured.seconds.size()));
    if_ran(ran ? number(median(measured.seconds)) : "");
    if_ran(ran ? number(mean(measured.seconds)) : "");
    if_ran(ran ? number(spread(measured.seconds)) : "");
    if_ran(ran ? number(flops_of(cell, pass) / median(measured.seconds) * 1e-12) : "");
    if_ran(std::to_string(measured.peak_bytes));
    if_ran(number(measured.error.largest));
    if_ran(measured.output_crc32);
    return fields;
}

} // namespace

TerminalTable::TerminalTable(const std::vector<Cell>& cells) : decodes_(!cells.empty() && cells.front().decodes()) {
    for (const std::string& name : column_names(decodes_)) widths_.push_back(std::max<size_t>(name.size(), 6));
    for (const Cell& cell : cells) {
        const Fields fields = fields_of(row_without(cell, Status::skipped, ""));
        for (size_t i = 0; i + 1 < fields.size(); ++i) widths_[i] = std::max(widths_[i], fields[i].size());
    }
}

std::string TerminalTable::line(const Fields& fields) const {
    std::string line;
    for (size_t i = 0; i < fields.size(); ++i) {
        const std::string blanks(widths_[i] > fields[i].size() ? widths_[i] - fields[i].size() : 0, ' ');
        line += (i == 0 ? "" : "  ") + (is_text(i, fields.size()) ? fields[i] + blanks : blanks + fields[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
}

std::string TerminalTable::head() const { return line(column_names(decodes_)); }

std::string TerminalTable::line(const Row& row) const { return line(fields_of(row)); }

std::string csv_head() {
    return csv_line({"impl",    "asked_kernel", "dtype",       "batch_size", "seq_len", "num_heads",
                     "emb_dim", "kv_heads",     "queries",     "causal",     "warmup",  "device",
                     "pass",    "status",       "reason",      "kernel",     "samples", "median_s",
                     "mean_s",  "spread",       "tflop_per_s", "peak_bytes", "error",   "output_crc32"});
}

std::string csv_of(const Row& row) {
    std::string lines;
    for (const Pass pass : kPasses)
        if (row.cell.wants(pass)) lines += csv_line(csv_fields(row, pass));
    return lines;
}

} // namespace hw4::bench
