// A machine in host memory, and the heads of attention's matrices there.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>

#include "src/base/error.h"
#include "src/cpu/aligned_memory.h"
#include "src/step/machine.h"

namespace hw4::step {

template <class T>
Owned<T> allocate_on_host(size_t count) {
    try {
        return {static_cast<T*>(cpu::allocate_bytes(count * sizeof(T)).release()), [](T* at) { std::free(at); }};
    } catch (const std::bad_alloc&) {
        throw Error(ExitCode::out_of_memory, "a training step needs " + std::to_string(count * sizeof(T)) +
                                                 " bytes of host memory more, which cannot be had");
    }
}

class HostMachine : public Machine {
public:
    Owned<float> floats(size_t count) override { return allocate_on_host<float>(count); }
    Owned<RowStatistics> statistics(size_t count) override { return allocate_on_host<RowStatistics>(count); }
    void put(float* to, const float* from, size_t count) override { std::copy_n(from, count, to); }
    void get(float* to, const float* from, size_t count) override { std::copy_n(from, count, to); }
    void fill(float* to, float value, size_t count) override { std::fill_n(to, count, value); }
};

// The columns of a head in a matrix whose rows are `columns` wide.
struct HeadPlace {
    int64_t first_column;
    int64_t columns;
    int64_t dim;
};

// `rows` rows of a head, one after the other.
inline void take_head(const float* matrix, const HeadPlace& at, int64_t rows, float* head) {
    for (int64_t row = 0; row < rows; ++row)
        std::copy_n(matrix + row * at.columns + at.first_column, at.dim, head + row * at.dim);
}

inline void give_head(const float* head, const HeadPlace& at, int64_t rows, float* matrix) {
    for (int64_t row = 0; row < rows; ++row)
        std::copy_n(head + row * at.dim, at.dim, matrix + row * at.columns + at.first_column);
}

} // namespace hw4::step
