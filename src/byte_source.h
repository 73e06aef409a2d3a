// A stream of bytes to read from.
#pragma once

#include <cstddef>

namespace hw4 {

class ByteSource {
public:
    virtual ~ByteSource() = default;
    // Reads up to `size` bytes; fewer only at the end. Throws Error when the file cannot be read.
    virtual size_t read(void* to, size_t size) = 0;
    // Whether the file behind it was written to since it was opened.
    virtual bool changed() const = 0;
};

} // namespace hw4
