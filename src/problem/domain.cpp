#include "src/problem/domain.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <utility>

#include "src/base/float_bits.h"
#include "src/problem/words.h"

namespace hw4 {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000;

std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", x);
    return text;
}

// The largest magnitude as bits. The bits of non-negative floats have the order of their values, and infinities and
// NaNs are the largest, so one vectorised integer maximum answers both questions.
uint32_t largest_magnitude_bits(const float* x, size_t count) {
    int32_t largest = 0;
    for (size_t i = 0; i < count; ++i) {
        const auto magnitude = static_cast<int32_t>(bits_of(x[i]) & 0x7fffffffu);
        largest = magnitude > largest ? magnitude : largest;
    }
    return static_cast<uint32_t>(largest);
}

// Summed in lanes, so that it vectorises; the order is the same on every machine.
double sum_of_magnitudes(const float* x, int64_t count) {
    constexpr int kLanes = 8;
    double lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += std::fabs(static_cast<double>(x[i + lane]));
    for (int lane = 0; i < count; ++i, ++lane) lanes[lane] += std::fabs(static_cast<double>(x[i]));
    for (int half = kLanes / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    return lanes[0];
}

} // namespace

void LargestRow::merge(const LargestRow& later) {
    if (later.sum > sum) *this = later;
}

void BatchExtremes::merge(const BatchExtremes& later) {
    query_row.merge(later.query_row);
    key = std::max(key, later.key);
    value = std::max(value, later.value);
    query = std::max(query, later.query);
    gradient = std::max(gradient, later.gradient);
    gradient_row.merge(later.gradient_row);
}

DomainCheck::DomainCheck(std::string path, const Problem& problem, const Domain& domain)
    : path_(std::move(path)), problem_(problem), domain_(domain) {}

Findings DomainCheck::examine(int64_t first_row, int64_t rows, const float* data) const {
    Findings findings;
    try {
        look_at_batches(first_row, rows, data, findings);
    } catch (const Error&) {
        findings.flaw = std::current_exception();
    }
    return findings;
}

// Judges the batches that are wholly in the stretch.
void DomainCheck::look_at_batches(int64_t first_row, int64_t rows, const float* data, Findings& findings) const {
    const int64_t batch_rows = problem_.batch_input_rows();
    const int64_t end = first_row + rows;
    for (int64_t row = first_row; row < end;) {
        const int64_t batch = row / batch_rows;
        const int64_t start = batch * batch_rows;
        const int64_t stop = std::min(end, start + batch_rows);
        const BatchExtremes seen =
            extremes_of(batch, row - start, stop - start, data + (row - first_row) * problem_.dim);
        if (stop - row == batch_rows)
            judge(batch, seen);
        else
            (row == first_row ? findings.first : findings.last) = {batch, stop - row, seen};
        row = stop;
    }
}

Findings DomainCheck::examine(const CasePart& part, int64_t first_row, int64_t rows, const float* data) const {
    Findings findings;
    part.each_stretch(problem_.operation->inputs, first_row, rows, [&](int64_t first, int64_t at, int64_t count) {
        if (findings.flaw) return;
        const Findings found = examine(at, count, data + (first - first_row) * problem_.dim);
        if (part.of_whole_batches()) {
            findings = found; // there is one stretch
            return;
        }
        findings.flaw = found.flaw;
        if (found.first.rows == 0) return;
        findings.first.batch = found.first.batch;
        findings.first.rows += found.first.rows;
        findings.first.extremes.merge(found.first.extremes);
    });
    return findings;
}

void DomainCheck::join(const Findings& findings) {
    join(findings.first);
    if (findings.flaw) std::rethrow_exception(findings.flaw);
    join(findings.last);
}

void DomainCheck::join(const SeenInPart& part) {
    if (part.rows == 0) return;
    if (open_.rows == 0)
        open_ = part;
    else {
        open_.extremes.merge(part.extremes);
        open_.rows += part.rows;
    }
    if (open_.rows < problem_.batch_input_rows()) return;
    judge(open_.batch, open_.extremes);
    open_ = {};
}

// `from` and `to` count the rows of the batch's operands; `data` starts at row `from`.
BatchExtremes DomainCheck::extremes_of(int64_t batch, int64_t from, int64_t to, const float* data) const {
    BatchExtremes seen;
    int64_t start = 0; // of the operand
    for (const Operand& operand : problem_.operation->inputs) {
        const int64_t rows = problem_.rows_of(operand);
        const int64_t first = std::max(from, start);
        const int64_t end = std::min(to, start + rows);
        if (first < end)
            look_at(operand, {batch, first - start, end - start, data + (first - from) * problem_.dim}, seen);
        start += rows;
    }
    return seen;
}

void DomainCheck::look_at(const Operand& operand, const Stretch& stretch, BatchExtremes& seen) const {
    if (domain_.element != Element::float32) refuse_overflow(operand, stretch);
    switch (operand.role) {
    case Role::query:
        seen.query_row = largest_row(operand, stretch);
        if (has_gradients()) seen.query = largest_magnitude(operand, stretch);
        break;
    case Role::key: seen.key = std::max(seen.key, largest_magnitude(operand, stretch)); break;
    case Role::value: seen.value = std::max(seen.value, largest_magnitude(operand, stretch)); break;
    case Role::gradient:
        seen.gradient_row = largest_row(operand, stretch);
        seen.gradient = largest_magnitude(operand, stretch);
        break;
    case Role::other: largest_magnitude(operand, stretch); break;
    }
}

LargestRow DomainCheck::largest_row(const Operand& operand, const Stretch& stretch) const {
    LargestRow largest{0, stretch.first};
    for (int64_t row = stretch.first; row < stretch.end; ++row) {
        const float* x = stretch.data + (row - stretch.first) * problem_.dim;
        const double sum = sum_of_magnitudes(x, problem_.dim);
        if (!(sum <= std::numeric_limits<double>::max())) refuse_non_finite(operand, {stretch.batch, row, row + 1, x});
        if (sum > largest.sum) largest = {sum, row};
    }
    return largest;
}

double DomainCheck::largest_magnitude(const Operand& operand, const Stretch& stretch) const {
    const uint32_t bits =
        largest_magnitude_bits(stretch.data, static_cast<size_t>((stretch.end - stretch.first) * problem_.dim));
    if (bits >= kInfinityBits) refuse_non_finite(operand, stretch);
    return float_of(bits);
}

// Refuses the first number that is too large. NaNs and infinities are left to the other checks, which name them.
void DomainCheck::refuse_overflow(const Operand& operand, const Stretch& stretch) const {
    const int64_t count = (stretch.end - stretch.first) * problem_.dim;
    const float limit = overflow_of(domain_.element);
    if (largest_magnitude_bits(stretch.data, static_cast<size_t>(count)) < bits_of(limit)) return;
    int64_t i = 0;
    while (std::fabs(stretch.data[i]) < limit) ++i;
    if (!std::isfinite(stretch.data[i])) return;
    refuse_number(operand, stretch, i,
                  " is infinite as " + std::string(name_of(domain_.element)) + ", need a magnitude below " +
                      number(limit));
}

// A query's scores are at most sum|q| * max|K|. A scale above 1 makes them larger, and dQ and dK too.
void DomainCheck::judge(int64_t batch, const BatchExtremes& seen) const {
    const double scale = std::max(1.0, problem_.scale);
    const double largest_score = scale * seen.query_row.sum * seen.key;
    if (largest_score > domain_.most_score)
        refuse_batch(batch, in_row(batch, Role::query, seen.query_row.row) + ": scores up to " + number(largest_score) +
                                (scale > 1 ? " (scale * " : " (") + "sum|q| * max|K|), need at most " +
                                number(domain_.most_score));
    const double largest_sum = static_cast<double>(problem_.keys) * seen.value;
    if (largest_sum > domain_.most_sum)
        refuse_batch(batch, in_batch(batch, named(Role::value).name) + (is_plain(problem_) ? ": N" : ": N_k") +
                                " * max|V| = " + number(largest_sum) + ", need at most " + number(domain_.most_sum));
    if (has_gradients()) judge_gradients(batch, seen);
}

void DomainCheck::judge_gradients(int64_t batch, const BatchExtremes& seen) const {
    const int64_t group = problem_.heads / problem_.kv_heads;
    const auto rows = static_cast<double>(group * problem_.queries);
    const std::string rows_name = group == 1 ? "N_q" : "N_q * heads / key-value heads";
    const double reach = seen.gradient_row.sum * seen.value;
    const double scale = std::max(1.0, problem_.scale);
    const std::string scaled = scale > 1 ? " * scale" : "";
    const auto limit = [&](const std::string& place, const std::string& what, double got) {
        if (got > domain_.most_gradient)
            refuse_batch(batch,
                         place + ": " + what + " = " + number(got) + ", need at most " + number(domain_.most_gradient));
    };
    const std::string row = in_row(batch, Role::gradient, seen.gradient_row.row);
    limit(row, "sum|dO| * max|V|", reach);
    limit(row, "sum|dO| * max|V| * max|K|" + scaled, reach * seen.key * scale);
    limit(row, "sum|dO| * max|V| * " + rows_name + " * max|Q|" + scaled, reach * rows * seen.query * scale);
    limit(in_batch(batch, named(Role::gradient).name), rows_name + " * max|dO|", rows * seen.gradient);
}

bool DomainCheck::has_gradients() const {
    const List<Operand>& inputs = problem_.operation->inputs;
    return std::any_of(inputs.begin(), inputs.end(),
                       [](const Operand& operand) { return operand.role == Role::gradient; });
}

// The input in that role.
const Operand& DomainCheck::named(Role role) const {
    const List<Operand>& inputs = problem_.operation->inputs;
    return *std::find_if(inputs.begin(), inputs.end(), [&](const Operand& operand) { return operand.role == role; });
}

std::string DomainCheck::in_row(int64_t batch, Role role, int64_t row) const {
    return in_batch(batch, named(role).name) + ", " + row_of(problem_, named(role), row);
}

std::string DomainCheck::in_batch(int64_t batch, const char* matrix) const {
    return path_ + ": batch " + std::to_string(batch) + ", " + matrix;
}

void DomainCheck::refuse_batch(int64_t batch, const std::string& what) const {
    throw Flaw(Flaw::before_row((batch + 1) * problem_.batch_input_rows()), what);
}

void DomainCheck::refuse_number(const Operand& operand, const Stretch& from, int64_t index,
                                const std::string& what) const {
    const int64_t row = from.first + index / problem_.dim;
    int64_t before = from.batch * problem_.batch_input_rows(); // rows of the file before this operand
    for (const Operand* other = problem_.operation->inputs.begin(); other != &operand; ++other)
        before += problem_.rows_of(*other);
    throw Flaw(Flaw::in_row(before + row), in_batch(from.batch, operand.name) + ", " + row_of(problem_, operand, row) +
                                               ", column " + std::to_string(index % problem_.dim) + ": " +
                                               number(from.data[index]) + what);
}

void DomainCheck::refuse_non_finite(const Operand& operand, const Stretch& from) const {
    int64_t i = 0;
    while (std::isfinite(from.data[i])) ++i;
    refuse_number(operand, from, i, ", need a finite number");
}

} // namespace hw4
