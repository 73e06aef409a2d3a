// The places of a case's rows in its files. In memory all rows have equally many columns; where d and d_v differ, rows
// in files lack the zeros behind their own columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "src/problem/problem.h"

namespace hw4 {

// For rows counted through `list`, the inputs or outputs of all batches: calls use(first, count, columns, number) for
// each stretch of rows with equally many columns in the file, which begins at the file's number `number`.
template <class Use>
void each_file_stretch(const Problem& problem, const List<Operand>& list, int64_t first, int64_t count,
                       const Use& use) {
    if (!problem.is_padded()) return use(first, count, problem.dim, first * problem.dim);
    const int64_t end = first + count;
    int64_t begin = first / problem.rows_of(list) * problem.rows_of(list); // in the operand
    int64_t number = first / problem.rows_of(list) * problem.numbers_of(list);
    while (begin < end)
        for (const Operand& operand : list) {
            const int64_t columns = problem.columns_of(operand);
            const int64_t from = std::max(first, begin);
            const int64_t to = std::min(end, begin + problem.rows_of(operand));
            if (from < to) use(from, to - from, columns, number + (from - begin) * columns);
            begin += problem.rows_of(operand);
            number += problem.rows_of(operand) * columns;
        }
}

// Expands a file's rows, which are at the end of memory for as many rows, to rows in memory.
inline void pad_at_end(unsigned char* room, int64_t rows, size_t row_bytes, size_t file_row_bytes) {
    if (row_bytes == file_row_bytes) return;
    const unsigned char* from = room + static_cast<size_t>(rows) * (row_bytes - file_row_bytes);
    for (int64_t row = 0; row < rows; ++row, room += row_bytes, from += file_row_bytes) {
        std::memmove(room, from, file_row_bytes);
        std::memset(room + file_row_bytes, 0, row_bytes - file_row_bytes);
    }
}

// Converts rows in memory to the file's form: returns them in place, or copies them.
inline const void* as_in_file(const void* rows, int64_t count, size_t row_bytes, size_t file_row_bytes,
                              std::vector<unsigned char>& copy) {
    if (row_bytes == file_row_bytes) return rows;
    copy.resize(static_cast<size_t>(count) * file_row_bytes);
    const auto* from = static_cast<const unsigned char*>(rows);
    for (size_t row = 0; row < static_cast<size_t>(count); ++row)
        std::memcpy(copy.data() + row * file_row_bytes, from + row * row_bytes, file_row_bytes);
    return copy.data();
}

// Calls write(bytes, data, size) for rows in memory, counted through `list`: the file's content from byte `bytes` on.
template <class Write>
void each_in_file(const Problem& problem, const List<Operand>& list, int64_t first, int64_t count, const void* rows,
                  const Write& write) {
    const size_t row_bytes = problem.stored_row_bytes();
    std::vector<unsigned char> copy;
    each_file_stretch(problem, list, first, count, [&](int64_t from, int64_t some, int64_t columns, int64_t number) {
        const size_t file_row_bytes = static_cast<size_t>(columns) * bytes_of(problem.element);
        const auto* const at = static_cast<const unsigned char*>(rows) + static_cast<size_t>(from - first) * row_bytes;
        write(static_cast<uint64_t>(number) * bytes_of(problem.element),
              as_in_file(at, some, row_bytes, file_row_bytes, copy), static_cast<size_t>(some) * file_row_bytes);
    });
}

} // namespace hw4
