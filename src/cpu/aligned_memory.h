// Memory aligned to a cache line.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>

namespace hw4::cpu {

constexpr size_t kCacheLine = 64;

struct Free {
    void operator()(void* p) const { std::free(p); }
};
using AlignedMemory = std::unique_ptr<void, Free>;
using AlignedFloats = std::unique_ptr<float[], Free>;

inline AlignedMemory allocate_bytes(size_t bytes) {
    AlignedMemory memory(std::aligned_alloc(kCacheLine, (bytes + kCacheLine - 1) / kCacheLine * kCacheLine));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

inline AlignedFloats allocate_aligned(size_t floats) {
    return AlignedFloats(static_cast<float*>(allocate_bytes(floats * sizeof(float)).release()));
}

} // namespace hw4::cpu
