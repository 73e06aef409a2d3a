// Constants in a row, as many as there are: what the rows of the program's tables are made of.
#pragma once

#include <cstddef>

namespace hw4 {

template <class T>
struct List {
    const T* first = nullptr;
    size_t count = 0;

    constexpr List() = default;
    template <size_t kCount>
    constexpr List(const T (&items)[kCount]) : first(items), count(kCount) {} // NOLINT(google-explicit-constructor)

    constexpr const T* begin() const { return first; }
    constexpr const T* end() const { return first + count; }
    constexpr size_t size() const { return count; }
    constexpr const T& operator[](size_t index) const { return first[index]; }
    constexpr bool has(const T& wanted) const {
        for (const T& item : *this)
            if (item == wanted) return true;
        return false;
    }
};

} // namespace hw4
