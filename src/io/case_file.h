// Reads a test case: a header (case_header.h), then the rows of every batch. The file may be gzip, recognised by its
// content. The header is checked against the file before anything is allocated for it; errors are reported in one line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "src/io/byte_source.h"
#include "src/io/case_header.h"
#include "src/problem/problem.h"

namespace hw4 {

// The stream of a case's bytes, batch after batch and in each batch part after part, as files store it: one file for
// each part, or one file for all.
class SplitBatches {
public:
    SplitBatches() = default;
    // One file is the whole stream.
    explicit SplitBatches(size_t bytes) : parts_{bytes} {}
    // One file for each operand.
    SplitBatches(const Problem& problem, const List<Operand>& operands) {
        for (const Operand& operand : operands)
            parts_.push_back(static_cast<size_t>(problem.rows_of(operand) * problem.columns_of(operand)) *
                             bytes_of(problem.element));
    }

    // Calls use(file, at, done, count) for each stretch of the stream's bytes [offset, offset + size) that is
    // contiguous in a file: `count` bytes from byte `at` of the file on, the stream's from offset + done on. Stops
    // early where use() returns false.
    template <class Use>
    void each_stretch(uint64_t offset, size_t size, const Use& use) const {
        const size_t batch_bytes = std::accumulate(parts_.begin(), parts_.end(), size_t{0});
        for (size_t done = 0; done < size;) {
            const uint64_t batch = (offset + done) / batch_bytes;
            auto in_part = static_cast<size_t>((offset + done) % batch_bytes);
            size_t part = 0;
            for (; in_part >= parts_[part]; ++part) in_part -= parts_[part];
            const size_t count = std::min(size - done, parts_[part] - in_part);
            if (!use(part, batch * parts_[part] + in_part, done, count)) return;
            done += count;
        }
    }

private:
    std::vector<size_t> parts_; // bytes per batch of each
};

class CaseReader {
public:
    // Opens the file, or standard input for the name "-", and reads its header. `asked` is the operation given by an
    // option, null without one: a file of version 1 has this operation, or forward. Throws Error (no_input, bad_data,
    // io_error), and (usage) where a file of version 2 has another operation.
    explicit CaseReader(const std::string& name, const Operation* asked = nullptr);
    // The same for a case of NumPy arrays, one plain file for each operand: Q, K, V and, in backward, dO.
    explicit CaseReader(const std::vector<std::string>& arrays);

    // The name for messages; it includes all files where there are several.
    const std::string& path() const { return path_; }
    const CaseHeader& header() const { return header_; }
    const Problem& problem() const { return header_.problem; }
    // Replaces the header's mask.
    void set_mask(Mask mask) { header_.problem.mask = mask; }
    void set_window(int64_t window) { header_.problem.window = window; }
    void set_scale(double scale) { header_.problem.scale = scale; }
    // Whether the file's size was compared with the problem's. A pipe only has a header.
    bool size_checked() const { return size_checked_; }

    // The keys of each batch, for a problem by lengths; otherwise null.
    const int32_t* lengths() const { return lengths_.empty() ? nullptr : lengths_.data(); }
    uint32_t lengths_crc32() const;

    // Reads rows of problem().dim numbers, as floats, counted through the whole file: the operands of batch 0, then of
    // batch 1 and so on. With random_access() any rows, in any number of threads; otherwise (gzip, a pipe) one stretch
    // after the other.
    void read_rows(int64_t first, int64_t count, float* to);
    // The same in the file's element type.
    void read_stored_rows(int64_t first, int64_t count, void* to);
    bool random_access() const { return files_.front().source->random_access() != nullptr; }

    // Blocks spread over the data, with its first and last bytes, which distinguish copies with other numbers. Needs
    // random access.
    struct Sample {
        uint64_t first;
        uint64_t bytes;
        uint32_t crc32;
    };
    std::vector<Sample> samples();

    // Call after the last row: the file must end here, and must not have been written to since it was opened.
    void expect_end();

    // Another thread calls this: a read_rows() that waits for a pipe's other end throws instead of waiting.
    void give_up() { files_.front().source->give_up(); }

private:
    size_t read_from(size_t data_offset, void* to, size_t size);
    void read_lengths(ByteSource& source);
    size_t whole_bytes() const;
    [[noreturn]] void fail_ended_early(size_t got) const;

    struct File {
        std::string path;
        std::unique_ptr<ByteSource> source;
        size_t header_bytes;
    };

    std::string path_;
    std::vector<File> files_; // one, or one per operand
    SplitBatches split_;      // divides the data among them
    CaseHeader header_;
    std::vector<int32_t> lengths_; // of each batch; empty: all batches have all keys
    bool size_checked_ = false;    // a regular file
    bool size_known_ = false;      // a plain file of exactly the header's size
};

} // namespace hw4
