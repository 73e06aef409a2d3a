#include "src/bench/compare.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "src/base/error.h"
#include "src/bench/sampling.h"

namespace hw4::bench {
namespace {

// Whether they measure the same thing; how often may differ.
bool comparable(Cell a, Cell b) {
    for (Cell* cell : {&a, &b}) {
        const int warmup = cell->rules.warmup;
        const bool cold = cell->rules.cold;
        cell->rules = Rules{};
        cell->rules.warmup = warmup;
        cell->rules.cold = cold;
        cell->memory_limit = 0;
        std::fill(std::begin(cell->passes), std::end(cell->passes), true);
    }
    return a == b;
}

std::vector<Row>::const_iterator match_of(const Row& row, const std::vector<Row>& rows) {
    return std::find_if(rows.begin(), rows.end(), [&](const Row& other) { return comparable(row.cell, other.cell); });
}

// What a pass took whose result is right: how fast it was wrong says nothing.
std::vector<double> seconds_of(const Measured& measured) {
    return measured.status == Status::failed ? std::vector<double>{} : measured.seconds;
}

} // namespace

Verdict verdict_of(const std::vector<double>& before, const std::vector<double>& after, double threshold) {
    if (after.empty()) return Verdict::lost;
    const double ratio = median(after) / median(before);
    if (ratio > 1 + threshold && quantile(after, 0.2) > quantile(before, 0.8)) return Verdict::slower;
    if (ratio < 1 - threshold && quantile(after, 0.8) < quantile(before, 0.2)) return Verdict::faster;
    return Verdict::same;
}

std::vector<Compared> compare(const std::vector<Row>& before, const std::vector<Row>& after, double threshold) {
    std::vector<Compared> list;
    for (const Row& old : before) {
        const auto found = match_of(old, after);
        if (found == after.end()) continue;
        for (const Pass pass : kPasses) {
            const std::vector<double> was = seconds_of(old.of(pass));
            const std::vector<double> is = seconds_of(found->of(pass));
            if (was.empty() || found->of(pass).status == Status::skipped) continue;
            list.push_back(
                {words_of(old.cell), pass, median(was), is.empty() ? 0 : median(is), verdict_of(was, is, threshold)});
        }
    }
    return list;
}

std::string comparison_text(const std::vector<Compared>& list) {
    std::string text;
    std::array<int, 4> counts{};
    for (const Compared& one : list) {
        ++counts[static_cast<size_t>(one.verdict)];
        char numbers[96];
        if (one.verdict == Verdict::lost)
            std::snprintf(numbers, sizeof numbers, "%.4g ms -> none", one.before * 1e3);
        else
            std::snprintf(numbers, sizeof numbers, "%.4g ms -> %.4g ms, %+.1f %%", one.before * 1e3, one.after * 1e3,
                          (one.after / one.before - 1) * 100);
        text += std::string(name_of(one.verdict)) + "\t" + one.cell + "\t" + name_of(one.pass) + "\t" + numbers + "\n";
    }
    char summary[96];
    std::snprintf(summary, sizeof summary, "%d same, %d faster, %d slower, %d lost\n", counts[0], counts[1], counts[2],
                  counts[3]);
    return text + summary;
}

std::vector<std::string> cells_without_match(const std::vector<Row>& rows, const std::vector<Row>& others) {
    std::vector<std::string> cells;
    for (const Row& row : rows)
        if (match_of(row, others) == others.end()) cells.push_back(words_of(row.cell));
    return cells;
}

std::string alone_text(const std::vector<std::string>& cells, const std::string& file) {
    constexpr size_t kNamed = 3;
    if (cells.empty()) return "";
    std::string text = std::to_string(cells.size()) + (cells.size() == 1 ? " cell is in " : " cells are in ") +
                       one_line(file) + " alone: ";
    for (size_t i = 0; i < std::min(cells.size(), kNamed); ++i) text += (i == 0 ? "" : ", ") + cells[i];
    return text + (cells.size() > kNamed ? ", ...\n" : "\n");
}

} // namespace hw4::bench
