#include "src/bench/kept_data.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "src/base/parallel.h"
#include "src/io/case_values.h"

namespace hw4::bench {
namespace {

constexpr uint64_t kSeed = 1; // as `testcases/generate --seed 1`

// What float32 values come from, beside the operation.
auto origin_of(const Cell& cell) {
    return std::tie(cell.kind, cell.batch_size, cell.seq_len, cell.num_heads, cell.emb_dim, cell.causal);
}

CaseData made(const Cell& cell, const Problem& problem) {
    CaseData data{problem, UntouchedVector<float>(problem.floats_in(problem.input_rows()))};
    const CaseRecipe recipe{problem, distribution_of(cell.kind), kSeed};
    in_pieces(data.values.size(), kPieceNumbers, [&](size_t first, size_t count) {
        float* const values = data.values.data() + first;
        fill_case_values(recipe, first, count, values);
        round_all(problem.element, values, count, values);
    });
    return data;
}

void round_to(Element element, CaseData& data) {
    in_pieces(data.values.size(), kPieceNumbers, [&](size_t first, size_t count) {
        float* const values = data.values.data() + first;
        round_all(element, values, count, values);
    });
    data.problem.element = element;
}

bool wants(const Cell& cell, const Operation& operation) {
    return std::any_of(std::begin(kPasses), std::end(kPasses),
                       [&](Pass pass) { return cell.wants(pass) && &operation_of(pass) == &operation; });
}

} // namespace

void KeptData::release_others(const Cell& cell) {
    const bool same_origin = made_for_ && origin_of(*made_for_) == origin_of(cell);
    for (std::optional<CaseData>& data : data_) {
        if (!data) continue;
        const Problem& kept = data->problem;
        const bool can_be_rounded = kept.element == cell.element || kept.element == Element::float32;
        if (!same_origin || !can_be_rounded || !wants(cell, *kept.operation)) data.reset();
    }
    made_for_ = cell;
}

size_t KeptData::bytes() const {
    size_t bytes = 0;
    for (const std::optional<CaseData>& data : data_)
        if (data) bytes += data->values.size() * sizeof(float);
    return bytes;
}

const CaseData& KeptData::of(const Cell& cell, const Operation& operation) {
    release_others(cell);
    std::optional<CaseData>& data = data_[&operation == &kForward ? 0 : 1];
    if (!data)
        data = made(cell, problem_of(cell, operation));
    else if (data->problem.element != cell.element)
        round_to(cell.element, *data);
    return *data;
}

} // namespace hw4::bench
