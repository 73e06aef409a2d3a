// Problems and places in them as text, for messages.
#pragma once

#include <string>
#include <utility>

#include "src/problem/problem.h"

namespace hw4 {

// Whether batches, tokens and columns describe the whole problem, as they do for the course's cases.
bool is_plain(const Problem& problem);

// Names and values: {"(B, N, d)", "(2, 128, 64)"}. Heads and both lengths are added where they differ from the course's
// cases; mask, window, operation, element and scale where they are not the usual ones.
std::pair<std::string, std::string> sizes_of(const Problem& problem);

// Why a kernel for this operation and these masks cannot take the problem, as the end of a sentence that begins with
// the kernel; empty if it can.
std::string what_it_lacks(const Operation& does, const List<Mask>& masks, const Problem& problem);

// "row 7" of an operand of a batch, counted through its heads; "head 1, row 7" where it has several.
std::string row_of(const Problem& problem, const Operand& operand, int64_t row);

// The place of a number in operands that follow one another batch after batch, as in a file.
struct NumberPlace {
    int64_t batch;
    size_t operand;
    int64_t row; // of the operand in its batch
    int64_t column;
};
NumberPlace number_place(const Problem& problem, const List<Operand>& operands, int64_t index);

// "batch 3, K, row 7" for that place. The operand's name is left out where there is only one.
std::string place_of(const Problem& problem, const List<Operand>& operands, int64_t index);

} // namespace hw4
