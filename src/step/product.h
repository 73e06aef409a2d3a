// Products of matrices in the orders of orders.h, by tiles and threads.
#pragma once

#include <cstdint>

#include "src/step/host_machine.h"
#include "src/step/kernels.h"
#include "src/step/team.h"

namespace hw4::step {

class Products {
public:
    explicit Products(const Kernels& kernels) : kernels_(kernels) {}

    // Throws Error (out_of_memory).
    void multiply(Team& team, const LinearProduct& of);

    size_t scratch_bytes() const { return packed_a_.bytes() + packed_b_.bytes() + blocks_.bytes(); }

private:
    const Kernels& kernels_;
    Buffer packed_a_; // [panel][term][tile_rows]
    Buffer packed_b_; // [panel][term][tile_columns]
    Buffer blocks_;   // of each thread
};

} // namespace hw4::step
