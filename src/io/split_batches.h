// The stream of a case's bytes, batch after batch and in each the parts one after the other, as it lies in files: one
// file for each part, or one file for all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "src/problem/problem.h"

namespace hw4 {

class SplitBatches {
public:
    SplitBatches() = default;
    // One file, which is the stream.
    explicit SplitBatches(size_t bytes) : parts_{bytes} {}
    // One for each operand.
    SplitBatches(const Problem& problem, const List<Operand>& operands) {
        for (const Operand& operand : operands)
            parts_.push_back(static_cast<size_t>(problem.rows_of(operand)) * problem.stored_row_bytes());
    }

    // Calls use(file, at, done, count) for each stretch of the stream's bytes [offset, offset + size) that is one in a
    // file too: `count` bytes from byte `at` of the file on, the stream's from offset + done on. Ends early where
    // use() returns false.
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
    std::vector<size_t> parts_; // bytes of each in a batch
};

} // namespace hw4
