// Problems and places in them, for messages.
#pragma once

#include <string>
#include <utility>

#include "src/problem/problem.h"

namespace hw4 {

// Whether batches, tokens and columns say it all, as for the course's cases.
bool is_plain(const Problem& problem);

// Names and values: {"(B, N, d)", "(2, 128, 64)"}, or with heads and both lengths where they are not as in the
// course's, with the mask and its window, the operation, the element and the scale where they are not the usual ones.
std::pair<std::string, std::string> sizes_of(const Problem& problem);

// Why a kernel that does this under those masks cannot take the problem, for a sentence that begins with the kernel;
// empty when it can.
std::string what_it_lacks(const Operation& does, const List<Mask>& masks, const Problem& problem);

// "row 7" of an operand of a batch, its heads counted through; "head 1, row 7" where it has several.
std::string row_of(const Problem& problem, const Operand& operand, int64_t row);

// A number of operands that follow one another batch after batch, as in a file.
struct NumberPlace {
    int64_t batch;
    size_t operand;
    int64_t row; // of the operand in its batch
    int64_t column;
};
NumberPlace number_place(const Problem& problem, const List<Operand>& operands, int64_t index);

// "batch 3, K, row 7" for it. The operand's name is left out where there is only one.
std::string place_of(const Problem& problem, const List<Operand>& operands, int64_t index);

} // namespace hw4
