// A vector whose memory is not touched before it is filled: the threads that fill a large vector also take its pages
// from the system, which zeroes them. A std::vector's constructor would do that in one thread and zero all of it again.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

namespace hw4 {

template <class T>
struct UntouchedMemory {
    using value_type = T;

    UntouchedMemory() = default;
    template <class U>
    UntouchedMemory(const UntouchedMemory<U>&) {} // cppcheck-suppress noExplicitConstructor

    T* allocate(size_t count) {
        const size_t bytes = count * sizeof(T);
        if (bytes < kHugePage) return static_cast<T*>(::operator new(bytes));
        const size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
        void* const memory = std::aligned_alloc(kHugePage, whole);
        if (memory == nullptr) throw std::bad_alloc();
        (void)::madvise(memory, whole, MADV_HUGEPAGE); // optional: small pages work too, only slower
        return static_cast<T*>(memory);
    }
    void deallocate(T* memory, size_t count) {
        if (count * sizeof(T) < kHugePage)
            ::operator delete(memory);
        else
            std::free(memory);
    }

    template <class U, class... Values>
    void construct(U* at, Values&&... values) {
        if constexpr (sizeof...(Values) == 0)
            ::new (static_cast<void*>(at)) U;
        else
            ::new (static_cast<void*>(at)) U(std::forward<Values>(values)...);
    }

    friend bool operator==(const UntouchedMemory&, const UntouchedMemory&) { return true; }
    friend bool operator!=(const UntouchedMemory&, const UntouchedMemory&) { return false; }

private:
    static constexpr size_t kHugePage = size_t{2} << 20;
};

template <class T>
using UntouchedVector = std::vector<T, UntouchedMemory<T>>;

} // namespace hw4
