// Whether a case's numbers are such as its contract is defined for: finite, and small enough that no score and no sum
// can overflow. One pass over the data, which may come in stretches of rows: any number of threads examine them, one
// joins what they found.
//
// Rows are counted through the whole file: the inputs of batch 0 in the operation's order, then of batch 1 and so on.
// What a batch's heads reach is taken together.
#pragma once

#include <exception>
#include <string>

#include "src/base/error.h"
#include "src/problem/case_part.h"
#include "src/problem/problem.h"

namespace hw4 {

// By what a batch's operands may reach.
struct Domain {
    double most_score; // sum|q| * max|K|, and that times the problem's scale
    double most_sum;   // N_k * max|V|
    // Where there are gradients. With N = N_q * heads / key-value heads, the rows that a key's gradients are summed of:
    // sum|dO| * max|V| * max(1, max|K|, N * max|Q|), and N * max|dO|. The largest sum|dO| * max|V| bounds dP and D. A
    // row's P add up to 1, so that it bounds dQ times max|K|; one key may have all of every row, so that it bounds dK
    // times N * max|Q|. A scale above 1 multiplies both.
    double most_gradient = 0;
    Element element = Element::float32; // every number, rounded to this, has to be finite
};

// The largest sum of magnitudes of a row.
struct LargestRow {
    double sum = 0;
    int64_t row = 0; // the first that has it

    // Of rows that follow.
    void merge(const LargestRow& later);
};

// What decides about a batch.
struct BatchExtremes {
    LargestRow query_row;
    double key = 0; // largest magnitudes
    double value = 0;
    // Where there are gradients:
    double query = 0;
    double gradient = 0;
    LargestRow gradient_row;

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

// Something in the data (bad_data), and at which place of the file it shows, so that of several the first can be named:
// the later place is the larger number. What is seen of a whole batch shows behind its last row.
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
    // `path` is for messages.
    DomainCheck(std::string path, const Problem& problem, const Domain& domain);

    // May be called by several threads. A flaw is only kept: the batch before it, which began in another stretch, may
    // have one too.
    Findings examine(int64_t first_row, int64_t rows, const float* data) const;

    // The same of rows of a part of the problem, which are counted there.
    Findings examine(const CasePart& part, int64_t first_row, int64_t rows, const float* data) const;

    // The findings of all stretches in their order. Throws a Flaw that names the batch and the element or row: the same
    // one, however the rows were cut.
    void join(const Findings& findings);
    // What was joined of a batch of which the rest is not to come: others have it. Rows: 0: nothing.
    const SeenInPart& left() const { return open_; }
    // By who has all of a batch. Throws likewise.
    void judge(int64_t batch, const BatchExtremes& seen) const;

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
