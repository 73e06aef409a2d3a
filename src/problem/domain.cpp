#include "src/problem/domain.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <utility>

#include "src/base/error.h"
#include "src/contracts/f32/forward.h"

namespace hw4 {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000;

std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", x);
    return text;
}

// The largest magnitude as bits: for non-negative floats the order of the bits is the order of the values,
// and infinities and NaNs come out on top, so one vectorised integer maximum answers both questions.
uint32_t largest_magnitude_bits(const float* x, size_t count) {
    int32_t largest = 0;
    for (size_t i = 0; i < count; ++i) {
        const auto magnitude = static_cast<int32_t>(bits_of(x[i]) & 0x7fffffffu);
        largest = magnitude > largest ? magnitude : largest;
    }
    return static_cast<uint32_t>(largest);
}

// In lanes, so that it vectorises; the order is the same on every machine.
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

void refuse_many_columns(const std::string& path, const Shape& shape, Arithmetic arithmetic) {
    if (arithmetic == Arithmetic::fixed && shape.dim > fixed::kMostColumns)
        throw Error(ExitCode::bad_data, path + ": d is " + std::to_string(shape.dim) + ", the contract " +
                                            name_of(arithmetic) + " needs at most " +
                                            std::to_string(fixed::kMostColumns));
}

void BatchExtremes::merge(const BatchExtremes& later) {
    if (later.row_sum > row_sum) {
        row_sum = later.row_sum;
        row = later.row;
    }
    k = std::max(k, later.k);
    v = std::max(v, later.v);
}

DomainCheck::DomainCheck(std::string path, const Shape& shape) : path_(std::move(path)), shape_(shape) {}

Findings DomainCheck::examine(int64_t first_row, int64_t rows, const float* data) const {
    Findings findings;
    try {
        look_at_batches(first_row, rows, data, findings);
    } catch (const Error&) {
        findings.flaw = std::current_exception();
    }
    return findings;
}

// Judges at once the batches that lie wholly in the stretch.
void DomainCheck::look_at_batches(int64_t first_row, int64_t rows, const float* data, Findings& findings) const {
    const int64_t batch_rows = shape_.batch_input_rows();
    const int64_t end = first_row + rows;
    for (int64_t row = first_row; row < end;) {
        const int64_t batch = row / batch_rows;
        const int64_t start = batch * batch_rows;
        const int64_t stop = std::min(end, start + batch_rows);
        const BatchExtremes seen = extremes_of(batch, row - start, stop - start, data + (row - first_row) * shape_.dim);
        if (stop - row == batch_rows)
            judge(batch, seen);
        else
            (row == first_row ? findings.first : findings.last) = {batch, stop - row, seen};
        row = stop;
    }
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
    if (open_.rows < shape_.batch_input_rows()) return;
    judge(open_.batch, open_.extremes);
    open_ = {};
}

// `from` and `to` count the rows of the batch's three matrices; `data` starts at row `from`.
BatchExtremes DomainCheck::extremes_of(int64_t batch, int64_t from, int64_t to, const float* data) const {
    BatchExtremes seen;
    const int64_t n = shape_.tokens;
    const auto in_matrix = [&](int64_t matrix, auto look) {
        const int64_t first = std::max(from, matrix * n);
        const int64_t last = std::min(to, (matrix + 1) * n);
        if (first < last) look(first - matrix * n, last - matrix * n, data + (first - from) * shape_.dim);
    };
    in_matrix(0, [&](int64_t first, int64_t last, const float* q) { look_at_queries(batch, first, last, q, seen); });
    in_matrix(1, [&](int64_t first, int64_t last, const float* k) {
        seen.k = largest_magnitude(batch, "K", first, last, k);
    });
    in_matrix(2, [&](int64_t first, int64_t last, const float* v) {
        seen.v = largest_magnitude(batch, "V", first, last, v);
    });
    return seen;
}

void DomainCheck::look_at_queries(int64_t batch, int64_t from, int64_t to, const float* data,
                                  BatchExtremes& seen) const {
    seen.row = from;
    for (int64_t row = from; row < to; ++row) {
        const float* q = data + (row - from) * shape_.dim;
        const double sum = sum_of_magnitudes(q, shape_.dim);
        if (!(sum <= std::numeric_limits<double>::max())) refuse_non_finite(batch, "Q", row, q);
        if (sum > seen.row_sum) {
            seen.row_sum = sum;
            seen.row = row;
        }
    }
}

double DomainCheck::largest_magnitude(int64_t batch, const char* matrix, int64_t from, int64_t to,
                                      const float* data) const {
    const uint32_t bits = largest_magnitude_bits(data, static_cast<size_t>((to - from) * shape_.dim));
    if (bits >= kInfinityBits) refuse_non_finite(batch, matrix, from, data);
    return float_of(bits);
}

// A row's scores are at most sum|q| * max|K|.
void DomainCheck::judge(int64_t batch, const BatchExtremes& seen) const {
    if (seen.row_sum * seen.k > kScoreLimit)
        throw Error(ExitCode::bad_data, in_batch(batch, "Q") + ", row " + std::to_string(seen.row) + ": scores up to " +
                                            number(seen.row_sum * seen.k) + " (sum|q| * max|K|), need at most " +
                                            number(kScoreLimit));
    const double largest_sum = static_cast<double>(shape_.tokens) * seen.v;
    if (largest_sum > kValueLimit)
        throw Error(ExitCode::bad_data, in_batch(batch, "V") + ": N * max|V| = " + number(largest_sum) +
                                            ", need at most " + number(kValueLimit));
}

std::string DomainCheck::in_batch(int64_t batch, const char* matrix) const {
    return path_ + ": batch " + std::to_string(batch) + ", " + matrix;
}

void DomainCheck::refuse_non_finite(int64_t batch, const char* matrix, int64_t first_row, const float* data) const {
    int64_t i = 0;
    while (std::isfinite(data[i])) ++i;
    throw Error(ExitCode::bad_data, in_batch(batch, matrix) + ", row " + std::to_string(first_row + i / shape_.dim) +
                                        ", column " + std::to_string(i % shape_.dim) + ": " + number(data[i]) +
                                        ", need a finite number");
}

} // namespace hw4
