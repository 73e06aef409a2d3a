// Whether a case's numbers are such as its contract is defined for: finite, and small enough that no score and no sum
// can overflow. One pass over the data, which may come in stretches of rows: any number of threads examine them, one
// joins what they found.
//
// Rows are counted through the whole file: the inputs of batch 0 in the operation's order, then of batch 1 and so on.
// What a batch's heads reach is taken together.
#pragma once

#include <exception>
#include <string>

#include "src/problem/problem.h"

namespace hw4 {

// By what a batch's operands may reach.
struct Domain {
    double most_score; // sum|q| * max|K|
    double most_sum;   // N_k * max|V|
};

// What decides about a batch.
struct BatchExtremes {
    double row_sum = 0; // the largest sum|q| of a query
    int64_t row = 0;    // the first row that has it
    double key = 0;     // largest magnitudes
    double value = 0;

    // Of rows that follow.
    void merge(const BatchExtremes& later);
};

struct SeenInPart {
    int64_t batch = 0;
    int64_t rows = 0; // 0: nothing
    BatchExtremes extremes;
};

// A stretch of rows holds at most two batches in part.
struct Findings {
    SeenInPart first;
    std::exception_ptr flaw; // of what follows `first`
    SeenInPart last;
};

class DomainCheck {
public:
    // `path` is for messages.
    DomainCheck(std::string path, const Problem& problem, const Domain& domain);

    // May be called by several threads. A flaw is only kept: the batch before it, which began in another stretch, may
    // have one too.
    Findings examine(int64_t first_row, int64_t rows, const float* data) const;

    // The findings of all stretches in their order. Throws Error (bad_data) that names the batch and the element or
    // row: the same one, however the rows were cut.
    void join(const Findings& findings);

    // Both, for who has the stretches in their order.
    void check(int64_t first_row, int64_t rows, const float* data) { join(examine(first_row, rows, data)); }

private:
    // Rows [first, end) of an operand, in its batch.
    struct Stretch {
        int64_t batch;
        int64_t first;
        int64_t end;
        const float* data;
    };

    void look_at_batches(int64_t first_row, int64_t rows, const float* data, Findings& findings) const;
    BatchExtremes extremes_of(int64_t batch, int64_t from, int64_t to, const float* data) const;
    void look_at(const Operand& operand, const Stretch& stretch, BatchExtremes& seen) const;
    void look_at_queries(const Operand& operand, const Stretch& stretch, BatchExtremes& seen) const;
    double largest_magnitude(const Operand& operand, const Stretch& stretch) const;
    void judge(int64_t batch, const BatchExtremes& seen) const;
    void join(const SeenInPart& part);
    const Operand& named(Role role) const;
    std::string in_batch(int64_t batch, const char* matrix) const;
    [[noreturn]] void refuse_non_finite(const Operand& operand, const Stretch& from) const;

    std::string path_;
    Problem problem_;
    Domain domain_;
    SeenInPart open_; // the batch that has been joined in part
};

} // namespace hw4
