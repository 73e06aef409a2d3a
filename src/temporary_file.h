// A new file, beside the one that it may replace. It goes with its owner, or with the process when a signal ends that,
// unless it was renamed.
#pragma once

#include <string>

#include "file_descriptor.h"
#include "interrupt.h"

namespace hw4 {

class TemporaryFile {
public:
    // In the folder of `target`. Throws Error (cannot_create), in which `shown` is the target's name.
    TemporaryFile(const std::string& target, const std::string& shown, InterruptGuard& interrupts);
    ~TemporaryFile();
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    const std::string& path() const { return path_; }
    int fd() const { return fd_.get(); }
    // close()'s own result.
    int close() { return fd_.close_checked(); }
    // Takes the place of `target`. Where that fails, false and errno.
    bool rename_to(const std::string& target);

private:
    bool create();

    std::string path_; // empty: there is none
    FileDescriptor fd_;
    InterruptGuard& interrupts_;
};

// The folder that a file is in.
std::string directory_of(const std::string& path);

} // namespace hw4
