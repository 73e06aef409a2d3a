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

// A column's name, and a row's value in it.
struct Field {
    std::string name;
    std::string text;
    bool left = false; // alignment in its column
};
using Fields = std::vector<Field>;

constexpr double kMebibyte = 1024.0 * 1024.0;

// Four digits for any size.
std::string milliseconds(double seconds) {
    const double ms = seconds * 1e3;
    return with_digits(ms < 1 ? "%.4f" : ms < 10 ? "%.3f" : ms < 100 ? "%.2f" : ms < 1000 ? "%.1f" : "%.0f", ms);
}

std::string rate(double flop, double seconds) {
    const double tera = flop / seconds * 1e-12;
    return with_digits(tera < 1 ? "%.4f" : tera < 10 ? "%.2f" : "%.1f", tera);
}

std::string mebibytes(size_t bytes) {
    return bytes == 0 ? "-" : with_digits("%.1f", static_cast<double>(bytes) / kMebibyte);
}

std::string implementation(const Cell& cell) { return cell.kernel.empty() ? cell.impl : cell.impl + ":" + cell.kernel; }

// "ok", or the failed pass and the reason.
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

// Decoding steps are limited by reading: the rate of K and V, and its fraction of the memory's peak.
void add_memory_rate(Fields& fields, const Row& row) {
    const Measured& measured = row.of(Pass::forward);
    const bool ran = !measured.seconds.empty();
    const double rate = ran ? cache_bytes_of(row.cell) / median(measured.seconds) : 0;
    const bool has_share = ran && measured.memory_rate > 0;
    fields.push_back({"GB/s", ran ? with_digits(rate < 1e11 ? "%.1f" : "%.0f", rate * 1e-9) : "-"});
    fields.push_back({"of peak", has_share ? with_digits("%.3f", rate / measured.memory_rate) : "-"});
}

void add_pass(Fields& fields, const Row& row, Pass pass) {
    const Measured& measured = row.of(pass);
    const bool ran = !measured.seconds.empty();
    const char* const name = pass == Pass::forward ? "fwd ms" : pass == Pass::backward ? "bwd ms" : "both ms";
    fields.push_back({name, ran ? milliseconds(median(measured.seconds)) : "-"});
    fields.push_back({"TFLOP/s", ran ? rate(flops_of(row.cell, pass), median(measured.seconds)) : "-"});
    if (!row.baseline.empty())
        fields.push_back({"x " + row.baseline, measured.ratio > 0 ? with_digits("%.2f", measured.ratio) : "-"});
}

Fields fields_of(const Row& row) {
    const Cell& cell = row.cell;
    Fields fields = {{"impl", implementation(cell), true},
                     {"dtype", name_of(cell.element), true},
                     {"B", std::to_string(cell.batch_size)},
                     {"H", heads_of(cell)},
                     {"N", tokens_of(cell)},
                     {"d", cell.heads_divide() ? std::to_string(cell.emb_dim / cell.num_heads) : "-"},
                     {"mask", cell.causal ? "causal" : "none", true}};
    for (const Pass pass : kPasses)
        if (cell.wants(pass)) add_pass(fields, row, pass);
    if (cell.decodes()) add_memory_rate(fields, row);
    fields.push_back({"peak MiB", mebibytes(row.most(&Measured::peak_bytes))});
    if (cell.wants(Pass::backward) || cell.wants(Pass::forward_backward))
        fields.push_back({"before bwd", mebibytes(row.most(&Measured::before_backward_bytes))});
    fields.push_back({"scratch", mebibytes(row.most(&Measured::scratch_bytes))});
    fields.push_back({"error", largest_error(row)});
    fields.push_back({"status", status_of(row), true});
    return fields;
}

// Quotes text that contains a comma or a quote.
std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    std::string doubled;
    for (const char c : text) doubled += c == '"' ? "\"\"" : std::string(1, c);
    return "\"" + doubled + "\"";
}

// A line with one part of each field.
std::string csv_line(const Fields& fields, std::string Field::*part) {
    std::string line;
    for (const Field& field : fields) line += quoted(field.*part) + ",";
    line.back() = '\n';
    return line;
}

std::string number(double x) { return with_digits("%.9g", x); }

Fields csv_fields(const Row& row, Pass pass) {
    const Cell& cell = row.cell;
    const Measured& measured = row.of(pass);
    Fields fields = {{"impl", cell.impl},
                     {"asked_kernel", cell.kernel},
                     {"dtype", name_of(cell.element)},
                     {"batch_size", std::to_string(cell.batch_size)},
                     {"seq_len", std::to_string(cell.seq_len)},
                     {"num_heads", std::to_string(cell.num_heads)},
                     {"emb_dim", std::to_string(cell.emb_dim)},
                     {"kv_heads", std::to_string(cell.key_heads())},
                     {"queries", std::to_string(cell.decodes() ? cell.queries : cell.seq_len)},
                     {"causal", cell.causal ? "1" : "0"},
                     {"warmup", cell.rules.warmup == Rules::kByTime ? "" : std::to_string(cell.rules.warmup)},
                     {"device", cell.device},
                     {"scratch_limit", std::to_string(cell.scratch)},
                     {"pass", name_of(pass)},
                     {"status", name_of(measured.status)},
                     {"reason", measured.reason}};
    const bool ran = !measured.seconds.empty();
    const std::vector<double>& seconds = ran ? measured.seconds : std::vector<double>{0};
    const auto if_ran = [&](const char* name, const std::string& text) { fields.push_back({name, ran ? text : ""}); };
    if_ran("kernel", measured.kernel);
    if_ran("samples", std::to_string(seconds.size()));
    if_ran("median_s", number(median(seconds)));
    if_ran("mean_s", number(mean(seconds)));
    if_ran("deviation_s", number(deviation(seconds)));
    if_ran("spread", number(spread(seconds)));
    if_ran("tflop_per_s", number(flops_of(cell, pass) / median(seconds) * 1e-12));
    if_ran("peak_bytes", std::to_string(measured.peak_bytes));
    if_ran("before_backward_bytes", pass == Pass::forward ? "" : std::to_string(measured.before_backward_bytes));
    if_ran("scratch_bytes", std::to_string(measured.scratch_bytes));
    if_ran("error", number(measured.error.largest));
    if_ran("output_crc32", measured.output_crc32);
    if_ran("relative_to", row.baseline);
    if_ran("ratio", measured.ratio > 0 ? number(measured.ratio) : "");
    return fields;
}

std::string line_of(const Fields& fields, std::string Field::*part, const std::vector<size_t>& widths) {
    std::string line;
    for (size_t i = 0; i < fields.size(); ++i) {
        const std::string& text = fields[i].*part;
        const std::string blanks(widths[i] > text.size() ? widths[i] - text.size() : 0, ' ');
        line += (i == 0 ? "" : "  ") + (fields[i].left ? text + blanks : blanks + text);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
}

} // namespace

TerminalTable::TerminalTable(const std::vector<Cell>& cells, const std::string& baseline) {
    for (const Cell& cell : cells) {
        empty_ = row_without(cell, Status::skipped, "");
        empty_.baseline = baseline;
        const Fields fields = fields_of(empty_);
        widths_.resize(fields.size(), 6);
        for (size_t i = 0; i < fields.size(); ++i)
            widths_[i] = std::max({widths_[i], fields[i].name.size(), fields[i].text.size()});
    }
}

std::string TerminalTable::head() const { return line_of(fields_of(empty_), &Field::name, widths_); }

std::string TerminalTable::line(const Row& row) const { return line_of(fields_of(row), &Field::text, widths_); }

std::string csv_head() { return csv_line(csv_fields(Row(), Pass::forward), &Field::name); }

std::string csv_of(const Row& row) {
    std::string lines;
    for (const Pass pass : kPasses)
        if (row.cell.wants(pass)) lines += csv_line(csv_fields(row, pass), &Field::text);
    return lines;
}

} // namespace hw4::bench
