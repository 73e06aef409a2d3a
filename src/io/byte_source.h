// A stream of bytes to read from.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "src/base/file_descriptor.h"

namespace hw4 {

struct OpenFile {
    FileDescriptor fd;
    struct stat status;
    off_t begin; // for a regular file: standard input may have any offset
};

// Throws Error (no_input, io_error).
OpenFile open_input(const std::string& name);

// Throws Error (usage) for a pipe or a device, without opening it, and for standard input; the message contains `why`.
void refuse_stream(const std::string& name, const std::string& why);

// The number of bytes left to read in a regular file.
inline uint64_t stored_bytes(const OpenFile& file) {
    return static_cast<uint64_t>(std::max<off_t>(file.status.st_size - file.begin, 0));
}

// Reads from any offset, in any number of threads at once.
class RandomAccess {
public:
    virtual ~RandomAccess() = default;
    // Like ByteSource::read().
    virtual size_t read_at(uint64_t offset, void* to, size_t size) const = 0;
};

class ByteSource {
public:
    virtual ~ByteSource() = default;
    // Reads up to `size` bytes; fewer only at the end. Throws Error when the file cannot be read.
    virtual size_t read(void* to, size_t size) = 0;
    // The same source for reading in any order; null where that is impossible.
    virtual const RandomAccess* random_access() const { return nullptr; }
    // Another thread calls this: a read that waits for a pipe's other end throws Error instead of waiting.
    virtual void give_up() = 0;
    // Whether the file has been written to since it was opened.
    virtual bool changed() const = 0;
};

// Any file without decompression; also a pipe.
class PlainSource : public ByteSource, public RandomAccess {
public:
    PlainSource(std::string path, OpenFile file)
        : path_(std::move(path)), fd_(std::move(file.fd)), opened_(file.status), begin_(file.begin) {}

    size_t read(void* to, size_t size) override;
    const RandomAccess* random_access() const override { return S_ISREG(opened_.st_mode) ? this : nullptr; }
    size_t read_at(uint64_t offset, void* to, size_t size) const override;
    void give_up() override { given_up_ = true; }
    bool changed() const override;

private:
    template <class ReadSome>
    size_t read_all(void* to, size_t size, const ReadSome& read_some) const;
    void wait_for_data() const;

    std::string path_;
    FileDescriptor fd_;
    struct stat opened_;
    off_t begin_;
    std::atomic<bool> given_up_{false};
};

} // namespace hw4
