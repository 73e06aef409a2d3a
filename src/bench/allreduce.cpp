#include "src/bench/allreduce.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "src/bench/row_json.h"
#include "src/bench/sampling.h"
#include "src/bench/tables.h"
#include "src/run/output_checksum.h"

namespace hw4::bench {
namespace {

// Numbers repeat with this period, a prime: a misplaced number has a wrong value.
constexpr size_t kPeriod = 65521;

using Numbers = std::vector<float>;

// Drawn from [-1, 1): their sums depend on the order of the additions.
Numbers contribution(int index) {
    Numbers numbers(kPeriod);
    for (size_t i = 0; i < kPeriod; ++i) {
        uint64_t x = (static_cast<uint64_t>(index) << 32 | i) + 0x9e3779b97f4a7c15u; // splitmix64
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        numbers[i] = static_cast<float>((x ^ (x >> 31)) >> 40) * 0x1p-23f - 1;
    }
    return numbers;
}

void add(Numbers& sum, const Numbers& more) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

class Expected {
public:
    Expected(Via via, int contributions)
        : exact_order_(via == Via::ordered), ordered_(node_sum(0, contributions, contribution, add)) {
        if (exact_order_) return;
        exact_.resize(kPeriod);
        bound_.resize(kPeriod);
        for (int index = 0; index < contributions; ++index) {
            const Numbers numbers = contribution(index);
            for (size_t i = 0; i < kPeriod; ++i) {
                exact_[i] += double{numbers[i]};
                bound_[i] += std::abs(double{numbers[i]}) * contributions * 0x1p-24; // for any order of additions
            }
        }
    }

    // Checks `count` numbers that begin at a multiple of the period.
    int64_t wrong_in(const float* sums, size_t count) const {
        int64_t wrong = 0;
        if (exact_order_ && std::memcmp(sums, ordered_.data(), count * sizeof(float)) == 0) return 0;
        for (size_t i = 0; i < count; ++i) wrong += is_right(sums[i], i) ? 0 : 1;
        return wrong;
    }

private:
    bool is_right(float sum, size_t i) const {
        if (exact_order_) return std::memcmp(&sum, &ordered_[i], sizeof sum) == 0;
        return std::abs(double{sum} - exact_[i]) <= bound_[i];
    }

    bool exact_order_;
    Numbers ordered_;
    std::vector<double> exact_;
    std::vector<double> bound_;
};

// A rank's contribution to the sum.
class Vectors {
public:
    Vectors(const Summation& summation, size_t count, bool on_card) : count_(count) {
        for (const SumNode& part : summation.parts())
            parts_.push_back(node_sum(part.first, part.width, contribution, add));
        memory_ = on_card ? card_floats(parts_.size() * count) : host_floats(parts_.size() * count);
    }

    void fill() {
        for (size_t part = 0; part < parts_.size(); ++part)
            for (size_t first = 0; first < count_; first += kPeriod)
                memory_->put(part * count_ + first, parts_[part].data(), std::min(kPeriod, count_ - first));
    }

    void sum_by(Summation& summation) { summation.sum(*memory_, count_); }

    int64_t wrong(const Expected& expected, std::string& crc32) const {
        Numbers sums(kPeriod);
        int64_t wrong = 0;
        OutputChecksum checksum;
        for (size_t first = 0; first < count_; first += kPeriod) {
            const size_t count = std::min(kPeriod, count_ - first);
            memory_->get(first, count, sums.data());
            wrong += expected.wrong_in(sums.data(), count);
            checksum.add(first * sizeof(float), sums.data(), count * sizeof(float));
        }
        crc32 = checksum.text();
        return wrong;
    }

private:
    size_t count_;
    std::vector<Numbers> parts_;
    std::unique_ptr<FloatMemory> memory_;
};

void take_all_results(AllreduceRow& row, Ranks& ranks) {
    const std::vector<std::string> checksums = ranks.exchange(row.crc32);
    row.crc32 = checksums.front();
    row.same_on_all = std::count(checksums.begin(), checksums.end(), row.crc32) == row.group.ranks;
    int64_t wrong = 0;
    for (const std::string& of_rank : ranks.exchange(std::to_string(row.wrong))) wrong += std::stoll(of_rank);
    row.wrong = wrong;
    if (wrong > 0) row.outcome = {Status::failed, std::to_string(wrong) + " numbers are wrong"};
}

} // namespace

double AllreduceRow::algorithm_bandwidth() const {
    return static_cast<double>(cell.count() * sizeof(float)) / median(seconds) * 1e-9;
}

double AllreduceRow::bus_bandwidth() const { return algorithm_bandwidth() * 2 * (group.ranks - 1) / group.ranks; }

AllreduceRow measure_allreduce(const AllreduceCell& cell, const RankGroup& group, Ranks& ranks,
                               Collectives& collectives) {
    AllreduceRow row{cell, group, {}, "", {}, 0, "", true};
    const bool on_card = group.device == "gpu";
    std::unique_ptr<Summation> summation;
    row.outcome = agreed_outcome(
        ranks, [&] { summation = make_summation(cell.via, on_card, cell.contributions, ranks, collectives); });
    if (row.outcome.status != Status::ok) return row;
    row.path = summation->path();
    std::optional<Vectors> vectors;
    row.outcome = agreed_outcome(ranks, [&] {
        vectors.emplace(*summation, cell.count(), on_card);
        vectors->fill();
        summation->reserve(cell.count());
    });
    if (row.outcome.status != Status::ok) return row;
    vectors->sum_by(*summation);
    row.wrong = vectors->wrong({cell.via, cell.contributions}, row.crc32);
    take_all_results(row, ranks);
    if (row.outcome.status != Status::ok) return row;
    // Repeated sums of sums grow and may become infinite; neither takes longer.
    row.seconds = slowest_seconds(ranks, collectives, cell.rules, [&] { vectors->sum_by(*summation); });
    return row;
}

std::string allreduce_head(const RankGroup& group) {
    return "# " + words_of(group) +
           "\n"
           "#       size         count    type   redop        time   algbw   busbw  #wrong  via      status\n"
           "#        (B)    (elements)                        (us)  (GB/s)  (GB/s)\n";
}

std::string allreduce_line(const AllreduceRow& row) {
    const bool ok = row.outcome.status == Status::ok;
    const auto bandwidth = [&](double (AllreduceRow::*of)() const) -> std::string {
        return !ok ? "-" : row.has_bandwidth() ? with_digits("%.2f", (row.*of)()) : "n/a";
    };
    char line[160];
    std::snprintf(line, sizeof line, "%12zu  %12zu   float     sum  %10s  %6s  %6s  %6s  %-7s  ",
                  row.cell.count() * sizeof(float), row.cell.count(),
                  ok ? with_digits("%.1f", median(row.seconds) * 1e6).c_str() : "-",
                  bandwidth(&AllreduceRow::algorithm_bandwidth).c_str(),
                  bandwidth(&AllreduceRow::bus_bandwidth).c_str(),
                  row.path.empty() ? "-" : std::to_string(row.wrong).c_str(), name_of(row.cell.via));
    const std::string sharing = row.group.shares_cards() ? ", ranks share a GPU" : "";
    return line + (ok ? "ok: " + row.path + sharing : name_of(row.outcome.status) + (": " + row.outcome.reason)) + "\n";
}

std::string allreduce_json(const AllreduceRow& row) {
    const bool ok = row.outcome.status == Status::ok;
    JsonFields fields;
    fields.add("via", json_string(name_of(row.cell.via)));
    add_group(fields, row.group);
    fields.add("contributions", int64_t{row.cell.contributions});
    fields.add_size("size", row.cell.count() * sizeof(float));
    fields.add_size("count", row.cell.count());
    fields.add("type", json_string("float"));
    fields.add("redop", json_string("sum"));
    fields.add("status", json_string(name_of(row.outcome.status)));
    fields.add("reason", text_or_null(row.outcome.reason));
    fields.add("path", text_or_null(row.path));
    fields.add("samples", numbers_json(row.seconds));
    fields.add("time_us", ok ? json_number(median(row.seconds) * 1e6) : "null");
    fields.add("algbw_gb_s", row.has_bandwidth() ? json_number(row.algorithm_bandwidth()) : "null");
    fields.add("busbw_gb_s", row.has_bandwidth() ? json_number(row.bus_bandwidth()) : "null");
    fields.add("wrong", row.path.empty() ? "null" : std::to_string(row.wrong));
    fields.add("crc32", text_or_null(row.crc32));
    fields.add("same_on_all_ranks", row.crc32.empty() ? "null" : row.same_on_all ? "true" : "false");
    return fields.text();
}

} // namespace hw4::bench
