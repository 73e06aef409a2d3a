// Products of matrices in the orders of orders.h, by tiles and threads.
#pragma once

#include <cstdint>

#include "src/step/host_machine.h"
#include "src/step/kernels.h"
#include "src/step/team.h"

namespace hw4::step {

// A factor's element (index, term), of which one of the steps is 1.
struct Factor {
    const float* at;
    int64_t index_step;
    int64_t term_step;
};

struct ProductShape {
    int64_t rows;
    int64_t columns;
    int64_t terms;     // of a sequence; they follow one another
    int64_t sequences; // added in TOKEN-SUM's tree
    int64_t leaf;      // terms of a leaf, whose sums are added in order
};

class Products {
public:
    explicit Products(const Kernels& kernels) : kernels_(kernels) {}

    // out[row][column] = the sum over terms of a(row, term) * b(column, term), after one addition to the residual's
    // where that is not null; it may be `out` itself. Throws Error (out_of_memory).
    void multiply(Team& team, const ProductShape& shape, Factor a, Factor b, const float* residual, float* out);

    size_t scratch_bytes() const { return packed_a_.bytes() + packed_b_.bytes() + blocks_.bytes(); }

private:
    const Kernels& kernels_;
    Buffer packed_a_; // [panel][term][tile_rows]
    Buffer packed_b_; // [panel][term][tile_columns]
    Buffer blocks_;   // of each thread
};

} // namespace hw4::step
