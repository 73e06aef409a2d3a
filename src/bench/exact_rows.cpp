#include "src/bench/exact_rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "src/base/parallel.h"
#include "src/problem/exact_attention.h"

namespace hw4::bench {
namespace {

constexpr int64_t kSampledRows = 32;           // of each kind
constexpr double kMostPairProducts = 0x1p26;   // over the heads that share keys, for all rows that see these keys
constexpr double kMostReferenceFlops = 0x1p26; // for all rows, computed by the reference
constexpr int kMostReferences = 8;             // at a time; each may copy a unit's K and V

// Places spread over 0 to count - 1, at varying distances from the beginnings of heads.
std::vector<int64_t> sampled(int64_t count) {
    const int64_t wanted = std::min(count, kSampledRows);
    std::vector<int64_t> places;
    for (int64_t i = 0; i < wanted; ++i) {
        const int64_t first = count * i / wanted;
        const int64_t end = count * (i + 1) / wanted;
        places.push_back(first + i * 7919 % (end - first));
    }
    return places;
}

// The rows of an operand that a query unit reads or writes.
const float* rows_of(const Problem& problem, const List<Operand>& list, size_t operand, const float* base,
                     int64_t unit) {
    const int64_t sharing = problem.heads / problem.heads_of(list[operand]); // query heads per head of the operand
    return operand_at(problem, list, operand, base, static_cast<size_t>(problem.dim))
        .of(unit / problem.heads, unit % problem.heads / sharing);
}

void compare(const Doubles& exact, const float* got, RowError& error) {
    ++error.rows;
    for (size_t c = 0; c < exact.size(); ++c) {
        error.largest = worse(error.largest, std::abs(double{got[c]} - exact[c]));
        error.reference = std::max(error.reference, std::abs(exact[c]));
    }
}

void merge(RowError& into, const RowError& other) {
    into.rows += other.rows;
    into.largest = worse(into.largest, other.largest);
    into.reference = std::max(into.reference, other.reference);
}

// The error of sampled rows of dK and dV of one key head.
RowError error_of_key_rows(const ExactAttention& exact, const Problem& problem, const float* output, int64_t head) {
    std::vector<ExactAttention::RowFacts> facts(static_cast<size_t>(exact.rows_of_group()));
    for (int64_t i = 0; i < exact.rows_of_group(); ++i)
        exact.query_gradient(head * exact.rows_of_group() + i, facts[static_cast<size_t>(i)]);
    RowError error;
    for (const int64_t key : sampled(problem.keys)) {
        const int64_t row = head * problem.keys + key;
        const auto [dK, dV] = exact.key_gradients(row, facts.data());
        compare(dK, exact.output_row(output, 1, row), error);
        compare(dV, exact.output_row(output, 2, row), error);
    }
    return error;
}

bool has_rounded(Element element, std::vector<float>& expected, const float* got) {
    round_all(element, expected.data(), expected.size(), expected.data());
    return std::memcmp(expected.data(), got, expected.size() * sizeof(float)) == 0;
}

// Compares everything that `group` units compute together, beginning with this unit.
bool has_reference_unit(const Computed& computed, const CaseData& data, const float* output, int64_t unit,
                        int64_t group) {
    const Problem& problem = data.problem;
    const List<Operand>& inputs = problem.operation->inputs;
    const List<Operand>& outputs = problem.operation->outputs;
    std::vector<float> expected[kMostOutputs];
    UnitOperands whole{problem.queries, problem.keys, problem.dim, {}, {}, problem.mask, nullptr, group};
    for (size_t i = 0; i < inputs.size(); ++i) whole.in[i] = rows_of(problem, inputs, i, data.values.data(), unit);
    for (size_t i = 0; i < outputs.size(); ++i) {
        const int64_t heads = outputs[i].rows == Rows::of_queries ? group : 1;
        expected[i].resize(problem.floats_in(heads * problem.head_rows(outputs[i])));
        whole.out[i] = expected[i].data();
    }
    computed.reference(whole);
    for (size_t i = 0; i < outputs.size(); ++i)
        if (!has_rounded(problem.element, expected[i], rows_of(problem, outputs, i, output, unit))) return false;
    return true;
}

// Compares a row that sees all keys with a run of that row alone: under no contract do other rows change its bytes.
bool has_reference_row(const Computed& computed, const CaseData& data, const float* output, int64_t unit,
                       int64_t query) {
    const Problem& problem = data.problem;
    std::vector<float> row(static_cast<size_t>(problem.dim));
    UnitOperands alone{1, problem.keys, problem.dim, {}, {}, Mask::none, nullptr, 1};
    for (size_t i = 0; i < kForward.inputs.size(); ++i)
        alone.in[i] = rows_of(problem, kForward.inputs, i, data.values.data(), unit);
    alone.in[0] += query * problem.dim;
    alone.out[0] = row.data();
    computed.reference(alone);
    return has_rounded(problem.element, row, rows_of(problem, kForward.outputs, 0, output, unit) + query * problem.dim);
}

} // namespace

RowError error_of_rows(const CaseData& data, const float* output) {
    const Problem& problem = data.problem;
    const ExactAttention exact(problem, data.values.data(), problem.keys);
    const std::vector<int64_t> rows = sampled(exact.query_rows());
    std::vector<RowError> errors(rows.size());
    in_throwing_pieces(rows.size(), 1, [&](size_t i, size_t) {
        ExactAttention::RowFacts facts;
        const bool forward = problem.operation == &kForward;
        compare(forward ? exact.output(rows[i]) : exact.query_gradient(rows[i], facts),
                exact.output_row(output, 0, rows[i]), errors[i]);
    });
    RowError whole;
    for (const RowError& error : errors) merge(whole, error);
    const double products =
        static_cast<double>(exact.rows_of_group()) * static_cast<double>(problem.keys * problem.dim);
    if (problem.operation == &kBackward && products <= kMostPairProducts)
        merge(whole, error_of_key_rows(exact, problem, output, problem.batches * problem.kv_heads / 2));
    return whole;
}

std::optional<bool> has_reference_bytes(const Contract& contract, const CaseData& data, const float* output) {
    const Problem& problem = data.problem;
    if (contract.compared != Compared::bytes) return std::nullopt;
    const Computed& computed = *contract.find(*problem.operation);
    std::atomic<bool> same{true};
    const auto compare_in_parallel = [&](int64_t count, const auto& is_same) {
        const auto compare_one = [&](size_t i, size_t) {
            if (!is_same(i)) same = false;
        };
        in_throwing_pieces(static_cast<size_t>(count), 1, compare_one,
                           std::min(available_processors(), kMostReferences));
    };
    if (problem.flops() <= kMostReferenceFlops) {
        const int64_t group = gives_rows_of_keys(*problem.operation) ? problem.heads / problem.kv_heads : 1;
        compare_in_parallel(problem.units() / group, [&](size_t i) {
            return has_reference_unit(computed, data, output, static_cast<int64_t>(i) * group, group);
        });
        return same;
    }
    if (problem.operation != &kForward) return std::nullopt;
    const int64_t last = problem.queries - 1;
    const bool has_mask = problem.mask != Mask::none; // only the last row sees all keys
    const std::vector<int64_t> places = sampled(has_mask ? problem.units() : problem.units() * problem.queries);
    compare_in_parallel(static_cast<int64_t>(places.size()), [&](size_t i) {
        const int64_t unit = has_mask ? places[i] : places[i] / problem.queries;
        const int64_t query = has_mask ? last : places[i] % problem.queries;
        return has_reference_row(computed, data, output, unit, query);
    });
    return same;
}

} // namespace hw4::bench
