// Any bits as floats: outside the contract's domain they are refused, inside every CPU kernel prints the bytes of the
// contract's sequential reference, and they are numbers between the values they are a mean of; of backward just
// numbers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "src/base/error.h"
#include "src/contracts/contract.h"
#include "src/contracts/f32/forward.h"
#include "src/cpu/engine.h"
#include "src/problem/domain.h"
#include "tests/fuzz/targets.h"
#include "tests/support/compute_batches.h"

namespace hw4::fuzz {
namespace {

constexpr size_t kHeadBytes = 4;

// How a float is made of its bits, so that not most cases are outside the domain.
enum class Bits {
    as_they_are,
    moderate,  // exponents from -16 to 15
    integers,  // from -128 to 127
    denormals, // and the smallest normal numbers
};

float value_of(uint32_t word, Bits how) {
    switch (how) {
    case Bits::as_they_are: break;
    case Bits::moderate: return float_of((word & 0x807fffffu) | (127 - 16 + (word >> 23) % 32) << 23);
    case Bits::integers: return static_cast<float>(static_cast<int8_t>(word));
    case Bits::denormals: return float_of(word & 0x80ffffffu);
    }
    return float_of(word);
}

struct SmallCase {
    Problem problem;
    std::vector<float> qkv;

    const float* batch(int64_t index) const {
        return qkv.data() + static_cast<size_t>(index) * problem.batch_input_floats();
    }
};

// Mostly small, for speed; sometimes beyond the tiles and segments of the contract.
int64_t tokens_of(uint8_t byte) { return 1 + (byte < 128 ? byte % 20 : byte % 70); }
int64_t dim_of(uint8_t byte) { return 1 + (byte < 192 ? byte % 5 : byte % 40); }

// Four bytes for the problem and for how the matrices are made, then the floats, over again when there are too few.
SmallCase small_case(const uint8_t* data, size_t size) {
    uint8_t head[kHeadBytes] = {};
    std::copy_n(data, std::min(size, kHeadBytes), head);
    SmallCase made;
    made.problem = {1 + head[3] / 64 % 2, tokens_of(head[0]), dim_of(head[1])};
    made.problem.mask = head[3] >= 128 ? Mask::causal : Mask::none;
    made.problem.operation = head[3] / 32 % 2 == 0 ? &kForward : &kBackward;
    made.qkv.resize(static_cast<size_t>(made.problem.batches) * made.problem.batch_input_floats());
    const size_t words = size > kHeadBytes ? (size - kHeadBytes) / sizeof(uint32_t) : 0;
    for (size_t i = 0; i < made.qkv.size() && words > 0; ++i) {
        uint32_t word;
        std::memcpy(&word, data + kHeadBytes + i % words * sizeof word, sizeof word);
        const size_t matrix = i / made.problem.floats_in(made.problem.queries) % made.problem.operation->inputs.size();
        made.qkv[i] = value_of(word, static_cast<Bits>(head[2] >> 2 * matrix & 3));
    }
    return made;
}

bool in_domain(const SmallCase& test, const Contract& contract) {
    try {
        DomainCheck("fuzz", test.problem, contract.domain).check(0, test.problem.input_rows(), test.qkv.data());
        return true;
    } catch (const Error& error) {
        expect(error.code() == ExitCode::bad_data, error.what());
        return false;
    }
}

std::vector<float> by_reference(const SmallCase& test, const Contract& contract, RowStatistics* rows) {
    std::vector<float> out(static_cast<size_t>(test.problem.batches) * test.problem.batch_output_floats());
    compute_by_reference(contract, test.problem, test.qkv.data(), out.data(), rows);
    return out;
}

// Of both roundings to a narrow type, of a value and of the mean.
double unit_of(Element element) { return element == Element::bf16 ? 0x1p-7 : 0x1p-10; }

// A weighted mean lies between its values, but for rounding: of each of N products, and of what sinks into the
// denormals, before the division by a sum of weights that is at least 2^-9. Under fixed 97 units of each tile, of which
// the largest value of all its columns has 2^22 or more, and the largest weight is at least half.
double rounding_of(const Contract& contract, size_t n) {
    const double of_f32 = static_cast<double>(4 * n + 16) * 0x1p-24;
    if (contract.element != Element::float32) return of_f32 + unit_of(contract.element);
    if (&contract == &kF32) return of_f32;
    return 200 * 0x1p-22 + (4 + static_cast<double>(n) / 64) * 0x1p-22;
}

double largest_of(const float* values, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(double{values[i]}));
    return largest;
}

void expect_means(const SmallCase& test, const Contract& contract, const std::vector<float>& out) {
    const auto n = static_cast<size_t>(test.problem.queries);
    const auto d = static_cast<size_t>(test.problem.dim);
    const double rounding = rounding_of(contract, n);
    for (int64_t b = 0; b < test.problem.batches; ++b) {
        const float* const values = test.batch(b) + 2 * n * d;
        const float* const means = out.data() + static_cast<size_t>(b) * n * d;
        const double largest_of_all = largest_of(values, n * d);
        for (size_t column = 0; column < d; ++column) {
            double least = values[column];
            double most = values[column];
            for (size_t i = column; i < n * d; i += d) {
                least = std::min<double>(least, values[i]);
                most = std::max<double>(most, values[i]);
            }
            const double largest = &contract == &kF32 ? std::max(-least, most) : largest_of_all;
            const double slack = largest * rounding + (contract.element == Element::fp16 ? 0x1p-24 : 0x1p-130);
            for (size_t i = column; i < n * d; i += d)
                expect(means[i] >= least - slack && means[i] <= most + slack,
                       "value " + std::to_string(i) + " of batch " + std::to_string(b) +
                           " is no mean: " + std::to_string(means[i]));
        }
    }
}

// Rounded to fp16 a gradient may be infinite.
void expect_numbers(const std::vector<float>& out, const Contract& contract) {
    for (size_t i = 0; i < out.size(); ++i)
        expect(contract.element == Element::fp16 ? !std::isnan(out[i]) : std::isfinite(out[i]),
               "value " + std::to_string(i) + " is not finite");
}

} // namespace

void kernels(const uint8_t* data, size_t size) {
    const SmallCase test = small_case(data, size);
    for (const Contract* contract : contracts()) {
        if (contract->find(*test.problem.operation) == nullptr || !in_domain(test, *contract)) continue;
        std::vector<RowStatistics> expected_rows(static_cast<size_t>(test.problem.output_rows()));
        const std::vector<float> expected = by_reference(test, *contract, expected_rows.data());
        if (test.problem.operation == &kForward)
            expect_means(test, *contract, expected);
        else
            expect_numbers(expected, *contract);
        for (const cpu::Kernel& kernel : cpu::kernels()) {
            if (!kernel.needs.processor() || kernel.under != contract) continue;
            if (kernel.does != test.problem.operation) continue;
            if (contract->compared == Compared::bound && kernel.needs.elements.has(contract->element)) continue;
            std::vector<float> out(expected.size(), NAN);
            std::vector<RowStatistics> rows(expected_rows.size(), {NAN, NAN, NAN});
            cpu::compute_batches(kernel, test.problem, test.qkv.data(), out.data(), 1, rows.data());
            expect(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0,
                   std::string(kernel.name) + " gives other bytes than the reference");
            if (kernel.does != &kForward) continue; // which alone has statistics
            expect(std::memcmp(rows.data(), expected_rows.data(), rows.size() * sizeof(RowStatistics)) == 0,
                   std::string(kernel.name) + " tells other statistics than the reference");
        }
    }
}

} // namespace hw4::fuzz
