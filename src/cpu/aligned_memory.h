// Memory that begins at a cache line.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>

namespace hw4::cpu {

constexpr size_t kCacheLine = 64;

struct Free {
    void operator()(float* p) const { std::free(p); }
};
using AlignedFloats = std::unique_ptr<float[], Free>;

inline AlignedFloats allocate_aligned(size_t floats) {
    const size_t bytes = (floats * sizeof(float) + kCacheLine - 1) / kCacheLine * kCacheLine;
    void* memory = std::aligned_alloc(kCacheLine, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return AlignedFloats(static_cast<float*>(memory));
}

} // namespace hw4::cpu
