// A file to read from, by its name; standard input where that is "-".
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "src/base/file_descriptor.h"

namespace hw4 {

struct OpenFile {
    FileDescriptor fd;
    struct stat status;
    off_t begin; // of a regular file: standard input may stand anywhere in it
};

// Throws Error (no_input, io_error).
OpenFile open_input(const std::string& name);

// Throws Error (usage) for a pipe or a device, without opening it, and for standard input, because `why`.
void refuse_stream(const std::string& name, const std::string& why);

// What there is to read in a regular file.
inline uint64_t stored_bytes(const OpenFile& file) {
    return static_cast<uint64_t>(std::max<off_t>(file.status.st_size - file.begin, 0));
}

} // namespace hw4
