// The operands of the cell that is measured, which stay for the next one: implementations of a sweep take the same
// sizes one after the other.
#pragma once

#include <array>
#include <optional>

#include "src/bench/workbench.h"

namespace hw4::bench {

class KeptData {
public:
    // Lets go of all that the cell has no use for: before anybody asks how much memory is free.
    void release_others(const Cell& cell);

    // Made, or rounded where float32 is kept and narrower elements are asked for. Until the next call.
    const CaseData& of(const Cell& cell, const Operation& operation);

private:
    std::optional<Cell> made_for_;
    std::array<std::optional<CaseData>, 2> data_; // of forward and backward
};

} // namespace hw4::bench
