// Part of a problem that is a problem of its own, so that whoever computes problems computes parts of them: some whole
// batches; of one batch some heads of keys with all heads of queries that share them; of those some heads of queries;
// or of one head of queries some rows, with the keys that they see. Its operands are stretches of the whole one's. Its
// operation may be a part of the whole one's, too.
//
// Under the causal mask the rows before a cut are such a problem with the keys that the last of them sees, because the
// mask is aligned at the bottom right; a window counts from there too.
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
    int64_t first_head = 0;  // of queries; where it is not 0, of the only batch
    int64_t first_query = 0; // where it is not 0, of the only head

    // All of it.
    explicit CasePart(const Problem& all) : whole(all), problem(all) {}

    // Whether nothing is left out of its batches.
    bool of_whole_batches() const {
        return problem.operation == whole.operation && problem.heads == whole.heads && problem.queries == whole.queries;
    }

    // For rows of the part, counted through `list`, its inputs or its outputs, of all its batches: calls
    // use(first, at, count) for each stretch of them that is one in the whole too, from row `at` on, in their order.
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
    // Of the operand of that name in the part's first batch.
    int64_t start_in_whole(const List<Operand>& list, const Operand& operand) const {
        const bool given = list.begin() != problem.operation->inputs.begin();
        const List<Operand>& all = given ? whole.operation->outputs : whole.operation->inputs;
        int64_t row = first_batch * whole.rows_of(all);
        for (const Operand* before = all.begin(); std::strcmp(before->name, operand.name) != 0; ++before)
            row += whole.rows_of(*before);
        return row;
    }
    // In the whole operand.
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

// As few parts as those rows are, in their order. Rows that are not all of a head must end, under a mask, where some
// key is seen; they cannot be cut where rows of keys are given too.
std::vector<CasePart> parts_of(const Problem& whole, const QueryRows& rows);

} // namespace hw4
