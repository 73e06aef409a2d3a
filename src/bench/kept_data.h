// The operands of the cell that is measured, which stay for the next one: implementations of a sweep take the same
// sizes one after the other. Those of forward and those of backward are two sets; both stay where both are wanted.
#pragma once

#include <array>
#include <optional>

#include "src/bench/workbench.h"

namespace hw4::bench {

class KeptData {
public:
    // Lets go of all that a cell of these sizes and passes has no use for, whoever measures it: before anybody asks how
    // much memory is free.
    void release_others(const Cell& cell);

    // Made, or rounded where float32 is kept and narrower elements are asked for. Until the next call.
    const CaseData& of(const Cell& cell, const Operation& operation);

    size_t bytes() const; // of what is kept

private:
    std::optional<Cell> made_for_;
    std::array<std::optional<CaseData>, 2> data_; // of kOperations
};

} // namespace hw4::bench
