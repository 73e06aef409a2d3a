// A part of a problem that is a problem of its own, so that code that computes problems computes parts of them, too:
// some whole batches; in one batch, some heads of keys with all heads of queries that share them; some heads of queries
// that share one head of keys; or some rows of one head of queries, with the keys that they see. The operands of the
// part are stretches of rows of the whole problem's operands. Its operation may be a part of the whole operation, too.
//
// Under the causal mask the rows before a cut form such a problem with the keys that the last of them sees, because the
// mask is aligned at the bottom right. A window counts from there, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "src/problem/problem.h"

namespace hw4 {

struct CasePart {
    Problem whole;
    Problem problem;
    int64_t first_batch = 0;
    int64_t first_head = 0;  // of queries; not 0 only in a part of one batch
    int64_t first_query = 0; // not 0 only in a part of one head

    // The whole problem as one part.
    explicit CasePart(const Problem& all) : whole(all), problem(all) {}

    // Whether the part has everything of its batches.
    bool of_whole_batches() const {
        return problem.operation == whole.operation && problem.heads == whole.heads && problem.queries == whole.queries;
    }

    // `rows` rows from `first` on are counted through `list`, the inputs or outputs of all the part's batches. Calls
    // use(first, at, count) in order for each stretch that is contiguous in the whole, from its row `at` on.
    template <class Use>
    void each_stretch(const List<Operand>& list, int64_t first, int64_t rows, const Use& use) const {
        if (of_whole_batches()) return use(first, first_batch * whole.rows_of(list) + first, rows);
        int64_t own = 0; // where the operand begins in the part
        for (const Operand& operand : list) {
            const int64_t from = std::max(first, own);
            const int64_t end = std::min(first + rows, own + problem.rows_of(operand));
            if (from < end) use(from, start_in_whole(list, operand) + first_row(operand) + from - own, end - from);
            own += problem.rows_of(operand);
        }
    }

private:
    // Where the operand of that name begins in the part's first batch.
    int64_t start_in_whole(const List<Operand>& list, const Operand& operand) const {
        const bool given = list.begin() != problem.operation->inputs.begin();
        const List<Operand>& all = given ? whole.operation->outputs : whole.operation->inputs;
        int64_t row = first_batch * whole.rows_of(all);
        for (const Operand* before = all.begin(); std::strcmp(before->name, operand.name) != 0; ++before)
            row += whole.rows_of(*before);
        return row;
    }
    // The part's first row in the whole operand.
    int64_t first_row(const Operand& operand) const {
        if (operand.rows == Rows::of_queries) return first_head * whole.queries + first_query;
        const int64_t head_begins = first_head / (whole.heads / whole.kv_heads) * whole.keys;
        return operand.rows == Rows::of_keys ? head_begins : head_begins + problem.first_key;
    }
};

// Rows of Q, counted through the heads of all batches.
struct QueryRows {
    int64_t first;
    int64_t end;
};

// The fewest parts that cover these rows, in order. With a mask, rows that are not a whole head must end where some key
// is seen. Where rows of keys are given too, a head cannot be cut.
std::vector<CasePart> parts_of(const Problem& whole, const QueryRows& rows);

} // namespace hw4
