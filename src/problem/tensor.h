// Where an operand of all batches and heads is in memory, with any elements, and where the operands of a case are that
// has the same layout in memory as in its file. Kernels are launched with tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/inline.h"
#include "src/problem/problem.h"

namespace hw4 {

// Distances in elements; the columns of a row are contiguous.
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

// One of the operands in `list`, the operation's inputs or outputs, of batches that follow one another from `at` on as
// in a file, with `row` elements from one row to the next.
template <class T>
Matrix<T> operand_at(const Problem& problem, const List<Operand>& list, size_t index, T* at, size_t row) {
    int64_t before = 0;
    for (size_t i = 0; i < index; ++i) before += problem.rows_of(list[i]);
    return {at + static_cast<size_t>(before) * row, row, static_cast<size_t>(problem.head_rows(list[index])) * row,
            static_cast<size_t>(problem.rows_of(list)) * row};
}

// Strides are in elements; the columns of a row are contiguous.
struct Tensor {
    void* data = nullptr; // a kernel only reads its inputs
    Element element = Element::float32;
    int64_t batch = 0;
    int64_t head = 0;
    int64_t row = 0;

    // A row of a head.
    void* at(int64_t in_batch, int64_t in_head, int64_t in_row = 0) const {
        const int64_t elements = in_batch * batch + in_head * head + in_row * row;
        return static_cast<unsigned char*>(data) + elements * static_cast<int64_t>(bytes_of(element));
    }

    // The same rows without the first ones of every head.
    Tensor from_row(int64_t first) const {
        Tensor rest = *this;
        if (data != nullptr) rest.data = at(0, 0, first);
        return rest;
    }

    // The same memory as elements of type T.
    template <class T>
    Matrix<T> as() const {
        return {static_cast<T*>(data), static_cast<size_t>(row), static_cast<size_t>(head), static_cast<size_t>(batch)};
    }

    // Whether every row begins at a multiple of so many bytes.
    bool is_aligned(size_t bytes) const {
        const auto whole = [&](int64_t elements) {
            return static_cast<size_t>(elements) * bytes_of(element) % bytes == 0;
        };
        return reinterpret_cast<uintptr_t>(data) % bytes == 0 && whole(row) && whole(head) && whole(batch);
    }
};

// K and V in pages: key j of a batch is row j % keys of page at[batch * columns + j / keys]. The stride `batch` of the
// tensors is the distance of two pages.
struct PageTable {
    const int32_t* at = nullptr; // null: the keys of a batch follow one another
    int64_t keys = 0;            // keys in a page, a power of two
    int64_t columns = 0;         // columns of the table
    int64_t count = 0;           // number of pages

    int shift() const { // the logarithm of `keys`
        int bits = 0;
        while (int64_t{1} << bits < keys) ++bits;
        return bits;
    }
    HW4_INLINE bool has(int32_t page) const { return page >= 0 && page < count; }
    HW4_INLINE int32_t page_of(int64_t batch, int64_t key) const { return at[batch * columns + key / keys]; }
    // The place of a key's row in the tensor, in elements.
    HW4_INLINE int64_t offset(const Tensor& tensor, int64_t batch, int64_t head, int64_t key) const {
        if (at == nullptr) return batch * tensor.batch + head * tensor.head + key * tensor.row;
        return page_of(batch, key) * tensor.batch + head * tensor.head + key % keys * tensor.row;
    }
};

// One of the operands in `list`, the operation's inputs or outputs, of batches that follow one another from `data` as
// in a file of the problem, with `row` elements from one row to the next.
inline Tensor tensor_at(const Problem& problem, const List<Operand>& list, size_t index, const void* data, size_t row) {
    const auto* const bytes = static_cast<const unsigned char*>(data);
    const Matrix<const unsigned char> matrix = operand_at(problem, list, index, bytes, row * bytes_of(problem.element));
    const auto elements = [&](size_t distance) { return static_cast<int64_t>(distance / bytes_of(problem.element)); };
    return {const_cast<unsigned char*>(matrix.at), problem.element, elements(matrix.batch), elements(matrix.head),
            elements(matrix.row)};
}

} // namespace hw4
