// Where an operand of all batches and heads stands in memory, and where the operands of a case stand that lies in
// memory as in its file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/inline.h"
#include "src/problem/problem.h"

namespace hw4 {

// Distances in elements; the columns of a row are neighbours.
template <class T>
struct Matrix {
    T* at = nullptr;
    size_t row = 0;
    size_t head = 0;
    size_t batch = 0;

    HW4_INLINE T* of(int64_t in_batch, int64_t in_head) const {
        return at + static_cast<size_t>(in_batch) * batch + static_cast<size_t>(in_head) * head;
    }
};

// One of the operands in `list`, the operation's inputs or outputs, of batches that follow one another from `at` as in
// a file, their rows so far apart.
template <class T>
Matrix<T> operand_at(const Problem& problem, const List<Operand>& list, size_t index, T* at, size_t row) {
    int64_t before = 0;
    for (size_t i = 0; i < index; ++i) before += problem.rows_of(list[i]);
    return {at + static_cast<size_t>(before) * row, row, static_cast<size_t>(problem.head_rows(list[index])) * row,
            static_cast<size_t>(problem.rows_of(list)) * row};
}

} // namespace hw4
