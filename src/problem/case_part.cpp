#include "src/problem/case_part.h"

namespace hw4 {
namespace {

// The largest part that begins at row `first` of Q and has no row from `end` on.
CasePart largest_part(const Problem& whole, int64_t first, int64_t end) {
    const int64_t group = whole.heads / whole.kv_heads;
    const int64_t batch_rows = whole.heads * whole.queries;
    CasePart part(whole);
    part.first_batch = first / batch_rows;
    part.first_head = first % batch_rows / whole.queries;
    part.first_query = first % whole.queries;
    // The number of blocks of `block_rows` rows from `first` on, before the next larger block begins.
    const auto whole_blocks = [&](int64_t block_rows) {
        return first % block_rows == 0 ? (end - first) / block_rows : 0;
    };
    const auto stay_in = [&](int64_t block_rows) { end = std::min(end, (first / block_rows + 1) * block_rows); };
    if ((part.problem.batches = whole_blocks(batch_rows)) > 0) return part;
    part.problem.batches = 1;
    stay_in(batch_rows);
    if ((part.problem.kv_heads = whole_blocks(group * whole.queries)) > 0) {
        part.problem.heads = part.problem.kv_heads * group;
        return part;
    }
    part.problem.kv_heads = 1;
    stay_in(group * whole.queries);
    if ((part.problem.heads = whole_blocks(whole.queries)) > 0) return part;
    part.problem.heads = 1;
    stay_in(whole.queries);
    part.problem.queries = end - first;
    part.problem.keys = visible_keys(whole.mask, whole.queries, whole.keys, part.first_query + end - first - 1);
    return part;
}

} // namespace

std::vector<CasePart> parts_of(const Problem& whole, const QueryRows& rows) {
    std::vector<CasePart> parts;
    for (int64_t first = rows.first; first < rows.end;) {
        parts.push_back(largest_part(whole, first, rows.end));
        const Problem& taken = parts.back().problem;
        first += taken.batches * taken.heads * taken.queries;
    }
    return parts;
}

} // namespace hw4
