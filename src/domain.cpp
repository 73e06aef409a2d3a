#include "domain.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "contract.h"
#include "error.h"

namespace hw4 {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000;

std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", x);
    return text;
}

std::string in_batch(const std::string& path, int64_t batch, const char* matrix) {
    return path + ": batch " + std::to_string(batch) + ", " + matrix;
}

// The largest magnitude as bits: for non-negative floats the order of the bits is the order of the values,
// and infinities and NaNs come out on top, so one vectorised integer maximum answers both questions.
uint32_t largest_magnitude_bits(const float* x, size_t count) {
    uint32_t largest = 0;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

[[noreturn]] void refuse_non_finite(const std::string& where, const Shape& shape, const float* matrix) {
    size_t i = 0;
    while (std::isfinite(matrix[i])) ++i;
    const auto dim = static_cast<size_t>(shape.dim);
    throw Error(ExitCode::bad_data, where + ", row " + std::to_string(i / dim) + ", column " + std::to_string(i % dim) +
                                        ": " + number(matrix[i]) + ", need a finite number");
}

double finite_largest(const std::string& where, const Shape& shape, const float* matrix) {
    const uint32_t bits = largest_magnitude_bits(matrix, shape.matrix_floats());
    if (bits >= kInfinityBits) refuse_non_finite(where, shape, matrix);
    return float_of(bits);
}

// A row's scores are at most sum|q| * max|K|; only called when the coarse bound does not already settle it.
void check_rows(const std::string& where, const Shape& shape, const float* q, double largest_k) {
    for (int64_t row = 0; row < shape.tokens; ++row) {
        double sum = 0;
        for (int64_t t = 0; t < shape.dim; ++t) sum += std::fabs(static_cast<double>(q[row * shape.dim + t]));
        if (sum * largest_k <= kScoreLimit) continue;
        throw Error(ExitCode::bad_data, where + ", row " + std::to_string(row) + ": scores up to " +
                                            number(sum * largest_k) + " (sum|q| * max|K|), need at most " +
                                            number(kScoreLimit));
    }
}

} // namespace

void check_domain(const std::string& path, const Shape& shape, int64_t first, int64_t count, const float* qkv) {
    for (int64_t i = 0; i < count; ++i) {
        const float* q = qkv + static_cast<size_t>(i) * shape.batch_input_floats();
        const float* k = q + shape.matrix_floats();
        const float* v = k + shape.matrix_floats();
        const double largest_q = finite_largest(in_batch(path, first + i, "Q"), shape, q);
        const double largest_k = finite_largest(in_batch(path, first + i, "K"), shape, k);
        const double largest_v = finite_largest(in_batch(path, first + i, "V"), shape, v);
        if (static_cast<double>(shape.dim) * largest_q * largest_k > kScoreLimit)
            check_rows(in_batch(path, first + i, "Q"), shape, q, largest_k);
        if (static_cast<double>(shape.tokens) * largest_v > kValueLimit)
            throw Error(ExitCode::bad_data, in_batch(path, first + i, "V") + ": N * max|V| = " +
                                                number(static_cast<double>(shape.tokens) * largest_v) +
                                                ", need at most " + number(kValueLimit));
    }
}

} // namespace hw4
