#include "src/bench/exact_rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "src/base/parallel.h"
#include "src/problem/tensor.h"

namespace hw4::bench {
namespace {

constexpr int64_t kSampledRows = 32;           // of each kind
constexpr double kMostPairProducts = 0x1p26;   // of the heads that share keys, for the rows of these keys
constexpr double kMostReferenceFlops = 0x1p26; // for all rows by the reference
constexpr int kMostReferences = 8;             // at a time: each may copy a unit's K and V

// Places spread over all of 0 to count - 1, not at the same distance from where heads begin.
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

double dot(const float* a, const float* b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += double{a[i]} * double{b[i]};
    return sum;
}

// The operands of a case, by unit of the queries.
class Operands {
public:
    Operands(const CaseData& data, const float* output)
        : problem_(data.problem), in_(data.values.data()), out_(output) {}

    const float* in(size_t operand, int64_t unit) const { return of(problem_.operation->inputs, operand, in_, unit); }
    const float* out(size_t operand, int64_t unit) const {
        return of(problem_.operation->outputs, operand, out_, unit);
    }
    const Problem& problem() const { return problem_; }
    int64_t dim() const { return problem_.dim; }
    int64_t seen(int64_t query) const { return visible_keys(problem_.mask, problem_.queries, problem_.keys, query); }

private:
    const float* of(const List<Operand>& list, size_t operand, const float* base, int64_t unit) const {
        const auto row = static_cast<size_t>(problem_.dim);
        const int64_t sharing = problem_.heads / problem_.heads_of(list[operand]); // heads, one of these
        return operand_at(problem_, list, operand, base, row)
            .of(unit / problem_.heads, unit % problem_.heads / sharing);
    }

    const Problem& problem_;
    const float* in_;
    const float* out_;
};

// The weights of a query row.
std::vector<double> weights_of(const Operands& operands, int64_t unit, int64_t query) {
    const int64_t dim = operands.dim();
    const double scale = 1 / std::sqrt(static_cast<double>(dim));
    const float* const q = operands.in(0, unit) + query * dim;
    const float* const k = operands.in(1, unit);
    std::vector<double> weights(static_cast<size_t>(operands.seen(query)));
    if (weights.empty()) return weights;
    for (size_t key = 0; key < weights.size(); ++key)
        weights[key] = scale * dot(q, k + static_cast<int64_t>(key) * dim, dim);
    const double largest = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    for (double& weight : weights) weight /= sum;
    return weights;
}

// dS of a query row.
std::vector<double> score_gradients(const Operands& operands, int64_t unit, int64_t query,
                                    const std::vector<double>& weights) {
    const int64_t dim = operands.dim();
    const float* const v = operands.in(2, unit);
    const float* const d_o = operands.in(3, unit) + query * dim;
    std::vector<double> gradients(weights.size());
    double together = 0;
    for (size_t key = 0; key < weights.size(); ++key) {
        gradients[key] = dot(d_o, v + static_cast<int64_t>(key) * dim, dim);
        together += weights[key] * gradients[key];
    }
    for (size_t key = 0; key < weights.size(); ++key) gradients[key] = weights[key] * (gradients[key] - together);
    return gradients;
}

// The sum of the rows of a matrix, each times its factor.
std::vector<double> combination(const std::vector<double>& factors, const float* rows, int64_t dim) {
    std::vector<double> sum(static_cast<size_t>(dim));
    for (size_t row = 0; row < factors.size(); ++row)
        for (size_t c = 0; c < sum.size(); ++c) sum[c] += factors[row] * double{rows[row * sum.size() + c]};
    return sum;
}

void compare(const std::vector<double>& exact, double factor, const float* got, RowError& error) {
    ++error.rows;
    for (size_t c = 0; c < exact.size(); ++c) {
        error.largest = worse(error.largest, std::abs(double{got[c]} - factor * exact[c]));
        error.reference = std::max(error.reference, std::abs(factor * exact[c]));
    }
}

void merge(RowError& into, const RowError& other) {
    into.rows += other.rows;
    into.largest = worse(into.largest, other.largest);
    into.reference = std::max(into.reference, other.reference);
}

// O's row, or dQ's.
RowError error_of_query_row(const Operands& operands, int64_t unit, int64_t query) {
    RowError error;
    const int64_t dim = operands.dim();
    const std::vector<double> weights = weights_of(operands, unit, query);
    if (operands.problem().operation == &kForward) {
        compare(combination(weights, operands.in(2, unit), dim), 1, operands.out(0, unit) + query * dim, error);
        return error;
    }
    const std::vector<double> gradients = score_gradients(operands, unit, query, weights);
    compare(combination(gradients, operands.in(1, unit), dim), 1 / std::sqrt(static_cast<double>(dim)),
            operands.out(0, unit) + query * dim, error);
    return error;
}

void add(std::vector<double>& sum, const std::vector<double>& terms) {
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += terms[c];
}

// Sampled rows of dK and dV of the keys of one unit: sums over the `group` units that share these keys, from this one.
RowError error_of_key_rows(const Operands& operands, int64_t first_unit, int64_t group) {
    const Problem& problem = operands.problem();
    const std::vector<int64_t> keys = sampled(problem.keys);
    const auto queries = static_cast<size_t>(problem.queries);
    std::vector<std::vector<double>> dK(keys.size(), std::vector<double>(static_cast<size_t>(problem.dim)));
    std::vector<std::vector<double>> dV = dK;
    for (int64_t unit = first_unit; unit < first_unit + group; ++unit) {
        std::vector<std::vector<double>> weights(keys.size(), std::vector<double>(queries));
        std::vector<std::vector<double>> gradients = weights;
        for (size_t query = 0; query < queries; ++query) {
            const std::vector<double> of_row = weights_of(operands, unit, static_cast<int64_t>(query));
            const std::vector<double> dS = score_gradients(operands, unit, static_cast<int64_t>(query), of_row);
            for (size_t i = 0; i < keys.size(); ++i) {
                const auto key = static_cast<size_t>(keys[i]);
                if (key >= of_row.size()) continue; // not seen
                weights[i][query] = of_row[key];
                gradients[i][query] = dS[key];
            }
        }
        for (size_t i = 0; i < keys.size(); ++i) {
            add(dK[i], combination(gradients[i], operands.in(0, unit), problem.dim));
            add(dV[i], combination(weights[i], operands.in(3, unit), problem.dim));
        }
    }
    RowError error;
    const double scale = 1 / std::sqrt(static_cast<double>(problem.dim));
    for (size_t i = 0; i < keys.size(); ++i) {
        const int64_t at = keys[i] * problem.dim;
        compare(dK[i], scale, operands.out(1, first_unit) + at, error);
        compare(dV[i], 1, operands.out(2, first_unit) + at, error);
    }
    return error;
}

bool has_rounded(Element element, std::vector<float>& expected, const float* got) {
    round_all(element, expected.data(), expected.size(), expected.data());
    return std::memcmp(expected.data(), got, expected.size() * sizeof(float)) == 0;
}

// All that `group` units give together, from this one.
bool has_reference_unit(const Computed& computed, const Operands& operands, int64_t unit, int64_t group) {
    const Problem& problem = operands.problem();
    const List<Operand>& outputs = problem.operation->outputs;
    std::vector<float> expected[kMostOutputs];
    UnitOperands whole{problem.queries, problem.keys, problem.dim, {}, {}, problem.mask, nullptr, group};
    for (size_t i = 0; i < problem.operation->inputs.size(); ++i) whole.in[i] = operands.in(i, unit);
    for (size_t i = 0; i < outputs.size(); ++i) {
        const int64_t heads = outputs[i].rows == Rows::of_queries ? group : 1;
        expected[i].resize(problem.floats_in(heads * problem.head_rows(outputs[i])));
        whole.out[i] = expected[i].data();
    }
    computed.reference(whole);
    for (size_t i = 0; i < outputs.size(); ++i)
        if (!has_rounded(problem.element, expected[i], operands.out(i, unit))) return false;
    return true;
}

// A row that sees all keys, as if it were alone: no contract lets other rows change its bytes.
bool has_reference_row(const Computed& computed, const Operands& operands, int64_t unit, int64_t query) {
    const Problem& problem = operands.problem();
    std::vector<float> row(static_cast<size_t>(problem.dim));
    UnitOperands alone{1, problem.keys, problem.dim, {}, {}, Mask::none, nullptr, 1};
    alone.in[0] = operands.in(0, unit) + query * problem.dim;
    alone.in[1] = operands.in(1, unit);
    alone.in[2] = operands.in(2, unit);
    alone.out[0] = row.data();
    computed.reference(alone);
    return has_rounded(problem.element, row, operands.out(0, unit) + query * problem.dim);
}

} // namespace

RowError error_of_rows(const CaseData& data, const float* output) {
    const Operands operands(data, output);
    const Problem& problem = data.problem;
    const std::vector<int64_t> rows = sampled(problem.units() * problem.queries);
    std::vector<RowError> errors(rows.size());
    in_throwing_pieces(rows.size(), 1, [&](size_t i, size_t) {
        errors[i] = error_of_query_row(operands, rows[i] / problem.queries, rows[i] % problem.queries);
    });
    RowError whole;
    for (const RowError& error : errors) merge(whole, error);
    const int64_t group = problem.heads / problem.kv_heads;
    const double products =
        static_cast<double>(group * problem.queries) * static_cast<double>(problem.keys * problem.dim);
    if (problem.operation == &kBackward && products <= kMostPairProducts)
        merge(whole, error_of_key_rows(operands, problem.units() / group / 2 * group, group));
    return whole;
}

std::optional<bool> has_reference_bytes(const Contract& contract, const CaseData& data, const float* output) {
    const Problem& problem = data.problem;
    if (contract.compared != Compared::bytes) return std::nullopt;
    const Operands operands(data, output);
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
            return has_reference_unit(computed, operands, static_cast<int64_t>(i) * group, group);
        });
        return same;
    }
    if (problem.operation != &kForward) return std::nullopt;
    const int64_t last = problem.queries - 1;
    const bool has_mask = problem.mask != Mask::none; // the last row sees all keys
    const std::vector<int64_t> places = sampled(has_mask ? problem.units() : problem.units() * problem.queries);
    compare_in_parallel(static_cast<int64_t>(places.size()), [&](size_t i) {
        const int64_t unit = has_mask ? places[i] : places[i] / problem.queries;
        const int64_t query = has_mask ? last : places[i] % problem.queries;
        return has_reference_row(computed, operands, unit, query);
    });
    return same;
}

} // namespace hw4::bench
