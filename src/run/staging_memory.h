// The memory of all staging buffers: one mapping, of huge pages where the system has them. Fewer pages cost less to
// fault in and, on the GPU's side, less to pin.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "src/run/staging_plan.h"

namespace hw4 {

// A mapping from a huge page on.
class MappedMemory {
public:
    explicit MappedMemory(size_t bytes)
        : bytes_(bytes), mapped_bytes_(bytes + kHugePage), mapped_(map(mapped_bytes_)),
          start_(first_huge_page(mapped_)) {
        (void)::madvise(start_, bytes, MADV_HUGEPAGE); // a wish: small pages do as well, only slower
    }
    ~MappedMemory() { ::munmap(mapped_, mapped_bytes_); }
    MappedMemory(const MappedMemory&) = delete;
    MappedMemory& operator=(const MappedMemory&) = delete;

    unsigned char* data() const { return start_; }
    size_t bytes() const { return bytes_; }

private:
    static constexpr size_t kHugePage = size_t{2} << 20;

    static void* map(size_t bytes) {
        void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        return memory;
    }
    static unsigned char* first_huge_page(void* memory) {
        const auto address = reinterpret_cast<uintptr_t>(memory);
        return static_cast<unsigned char*>(memory) + (kHugePage - address % kHugePage) % kHugePage;
    }

    size_t bytes_;
    size_t mapped_bytes_;
    void* mapped_;
    unsigned char* start_;
};

class StagingMemory {
public:
    explicit StagingMemory(const StagingPlan& plan)
        : plan_(plan), memory_(plan.bytes()), larger_(static_cast<size_t>(plan.ring_buffers + plan.writers)) {}

    void* data() const { return memory_.data(); }
    size_t bytes() const { return memory_.bytes(); }

    // Where a reader puts a piece of the input: a buffer of so many bytes at least. Who has the buffer asks.
    unsigned char* ring_buffer(int index, size_t bytes) {
        if (bytes > plan_.piece_bytes) return larger(index, bytes);
        return memory_.data() + static_cast<size_t>(index) * plan_.piece_bytes;
    }
    // Where a writer takes output from.
    unsigned char* writer_buffer(int writer, size_t bytes) {
        if (bytes > plan_.part_bytes) return larger(plan_.ring_buffers + writer, bytes);
        return memory_.data() + static_cast<size_t>(plan_.ring_buffers) * plan_.piece_bytes +
               static_cast<size_t>(writer) * plan_.part_bytes;
    }

private:
    // A case with rows longer than the buffers, which were made for any: memory of its own, which no GPU knows of.
    unsigned char* larger(int buffer, size_t bytes) {
        std::unique_ptr<MappedMemory>& memory = larger_[static_cast<size_t>(buffer)];
        if (!memory || memory->bytes() < bytes) {
            memory.reset(); // first: there may not be enough for both
            memory = std::make_unique<MappedMemory>(bytes);
        }
        return memory->data();
    }

    StagingPlan plan_;
    MappedMemory memory_;
    std::vector<std::unique_ptr<MappedMemory>> larger_; // by buffer, those of the ring first
};

} // namespace hw4
