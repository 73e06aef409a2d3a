// A stream of bytes to read from.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hw4 {

// Reads from any place, by any number of threads at once.
class RandomAccess {
public:
    virtual ~RandomAccess() = default;
    // As ByteSource::read().
    virtual size_t read_at(uint64_t offset, void* to, size_t size) const = 0;
};

class ByteSource {
public:
    virtual ~ByteSource() = default;
    // Reads up to `size` bytes; fewer only at the end. Throws Error when the file cannot be read.
    virtual size_t read(void* to, size_t size) = 0;
    // The same source, for who wants to read it in no order; null where that cannot be.
    virtual const RandomAccess* random_access() const { return nullptr; }
    // Called by another thread: a read that waits for a pipe's other end throws Error instead of waiting on.
    virtual void give_up() = 0;
    // Whether the file behind it was written to since it was opened.
    virtual bool changed() const = 0;
};

} // namespace hw4
