// Which cases the contracts are defined for: fixed for up to 256 columns, both for the same numbers, finite ones whose
// scores and sums cannot overflow fp32. One pass over the data, which may come in stretches of rows: any number of
// threads examine them, one joins what they found.
//
// Rows are counted through the whole file: Q, K and V of batch 0, then of batch 1 and so on.
#pragma once

#include <exception>
#include <string>

#include "src/contracts/contract.h"
#include "src/problem/shape.h"

namespace hw4 {

// Throws Error (bad_data) where the contract is not defined for so many columns. `path` is for the message.
void refuse_many_columns(const std::string& path, const Shape& shape, Arithmetic arithmetic);

// What decides about a batch.
struct BatchExtremes {
    double row_sum = 0; // the largest sum|q| of a row of Q
    int64_t row = 0;    // the first row that has it
    double k = 0;       // largest magnitudes
    double v = 0;

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
    DomainCheck(std::string path, const Shape& shape);

    // May be called by several threads. A flaw is only kept: the batch before it, which began in another stretch, may
    // have one too.
    Findings examine(int64_t first_row, int64_t rows, const float* data) const;

    // The findings of all stretches in their order. Throws Error (bad_data) that names the batch and the element or
    // row: the same one, however the rows were cut.
    void join(const Findings& findings);

    // Both, for who has the stretches in their order.
    void check(int64_t first_row, int64_t rows, const float* data) { join(examine(first_row, rows, data)); }

private:
    void look_at_batches(int64_t first_row, int64_t rows, const float* data, Findings& findings) const;
    BatchExtremes extremes_of(int64_t batch, int64_t from, int64_t to, const float* data) const;
    void look_at_queries(int64_t batch, int64_t from, int64_t to, const float* data, BatchExtremes& seen) const;
    double largest_magnitude(int64_t batch, const char* matrix, int64_t from, int64_t to, const float* data) const;
    void judge(int64_t batch, const BatchExtremes& seen) const;
    void join(const SeenInPart& part);
    std::string in_batch(int64_t batch, const char* matrix) const;
    [[noreturn]] void refuse_non_finite(int64_t batch, const char* matrix, int64_t first_row, const float* data) const;

    std::string path_;
    Shape shape_;
    SeenInPart open_; // the batch that has been joined in part
};

} // namespace hw4
