// Checks that a case's numbers are those its contract is defined for: finite, and so small that no score and no sum can
// overflow. The check is one pass over the data, which may come in stretches of rows: any number of threads examine
// stretches, and one thread joins their findings.
//
// Rows are counted through the whole file: the inputs of batch 0 in the operation's order, then of batch 1 and so on.
// The limits apply to a batch with all its heads together.
#pragma once

#include <exception>
#include <string>

#include "src/base/error.h"
#include "src/problem/case_part.h"
#include "src/problem/problem.h"

namespace hw4 {

// The limits of a batch's operands.
struct Domain {
    double most_score; // sum|q| * max|K|, and that times the problem's scale
    double most_sum;   // N_k * max|V|
    // For gradients. With N = N_q * heads / key-value heads, the number of rows that a key's gradients sum over:
    // sum|dO| * max|V| * max(1, max|K|, N * max|Q|), and N * max|dO|. The largest sum|dO| * max|V| bounds dP and D. A
    // row's P add up to 1, so it bounds dQ times max|K|; one key may have all of every row, so it bounds dK times N *
    // max|Q|. A scale above 1 multiplies both.
    double most_gradient = 0;
    Element element = Element::float32; // every number, rounded to this, has to be finite
};

// The largest sum of magnitudes of a row.
struct LargestRow {
    double sum = 0;
    int64_t row = 0; // the first row with this sum

    // `later`: the findings of rows that follow.
    void merge(const LargestRow& later);
};

// The values that decide about a batch.
struct BatchExtremes {
    LargestRow query_row;
    double key = 0; // largest magnitudes
    double value = 0;
    // Set for operations with gradients:
    double query = 0;
    double gradient = 0;
    LargestRow gradient_row;

    // `later`: the findings of rows that follow.
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
    std::exception_ptr flaw; // in the rows after `first`
    SeenInPart last;
};

// Bad data, and the place in the file where it shows, so that the first of several flaws can be named: a later place is
// a larger number. A flaw of a whole batch shows behind its last row.
class Flaw : public Error {
public:
    Flaw(int64_t place, const std::string& message) : Error(ExitCode::bad_data, message), place_(place) {}
    static int64_t in_row(int64_t row) { return 2 * row + 1; }
    static int64_t before_row(int64_t row) { return 2 * row; }
    int64_t place() const { return place_; }

private:
    int64_t place_;
};

class DomainCheck {
public:
    // `path` is used in messages.
    DomainCheck(std::string path, const Problem& problem, const Domain& domain);

    // May be called by several threads. Only stores a flaw: the batch before it, begun in another stretch, may have
    // one.
    Findings examine(int64_t first_row, int64_t rows, const float* data) const;

    // The same for rows of a part of the problem, counted in the part.
    Findings examine(const CasePart& part, int64_t first_row, int64_t rows, const float* data) const;

    // Joins the findings of all stretches, given in order. Throws a Flaw that names the batch and the element or row,
    // the same Flaw however the rows were cut.
    void join(const Findings& findings);
    // The joined findings of a batch, where other rows of the batch are checked elsewhere. Rows 0: nothing.
    const SeenInPart& left() const { return open_; }
    // Judges a batch from the extremes of all its rows. Throws a Flaw, too.
    void judge(int64_t batch, const BatchExtremes& seen) const;

    // Examines and joins, for callers that have the stretches in order.
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
    LargestRow largest_row(const Operand& operand, const Stretch& stretch) const;
    double largest_magnitude(const Operand& operand, const Stretch& stretch) const;
    void refuse_overflow(const Operand& operand, const Stretch& stretch) const;
    void judge_gradients(int64_t batch, const BatchExtremes& seen) const;
    bool has_gradients() const;
    void join(const SeenInPart& part);
    const Operand& named(Role role) const;
    std::string in_row(int64_t batch, Role role, int64_t row) const;
    std::string in_batch(int64_t batch, const char* matrix) const;
    [[noreturn]] void refuse_batch(int64_t batch, const std::string& what) const;
    [[noreturn]] void refuse_number(const Operand& operand, const Stretch& from, int64_t index,
                                    const std::string& what) const;
    [[noreturn]] void refuse_non_finite(const Operand& operand, const Stretch& from) const;

    std::string path_;
    Problem problem_;
    Domain domain_;
    SeenInPart open_; // the batch that has been joined in part
};

} // namespace hw4
