// What register_rows chooses of row_tiles.cuh.
#pragma once

namespace hw4::gpu {

struct RegisterRows {
    static constexpr bool kPadded = true;
    static constexpr bool kCoalesced = true;
    static constexpr bool kUnrolled = true;
    static constexpr bool kRegisters = true; // new on this rung
};

} // namespace hw4::gpu
