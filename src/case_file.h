// Reading a test case: little-endian int32 B, N, d, then Q, K, V (N*d floats each) of every batch.
// The file may be gzip, recognised by its content. Everything is checked against the file before anything
// is allocated for it; what is wrong is said in one line.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "byte_source.h"
#include "shape.h"

namespace hw4 {

// Which file it is, whatever its name: to notice that input and output are the same one.
struct FileIdentity {
    dev_t device;
    ino_t inode;
};

class CaseReader {
public:
    // Opens the file and reads its header. Throws Error (no_input, bad_data, io_error).
    explicit CaseReader(const std::string& path);

    const std::string& path() const { return path_; }
    const Shape& shape() const { return shape_; }
    FileIdentity identity() const { return identity_; }

    // The next `count` batches, Q K V Q K V ..., as they stand in the file.
    void read_batches(int64_t count, float* to);

    // After the last batch: the file must end here, and must not have been written to meanwhile.
    void expect_end();

private:
    [[noreturn]] void fail_ended_early(size_t got) const;
    [[noreturn]] void fail_changed(const std::string& how) const;

    std::string path_;
    std::unique_ptr<ByteSource> source_;
    Shape shape_;
    FileIdentity identity_{};
    bool size_known_ = false; // a plain file whose size was compared with the header
    int64_t next_batch_ = 0;
};

} // namespace hw4
