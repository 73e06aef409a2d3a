// The memory of all staging buffers: one mapping, of huge pages where the system has them. Fewer pages cost less to
// fault in and, on the GPU's side, less to pin.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include "src/run/staging_plan.h"

namespace hw4 {

class StagingMemory {
public:
    explicit StagingMemory(const StagingPlan& plan)
        : plan_(plan), mapped_bytes_(plan.bytes() + kHugePage), mapped_(map(mapped_bytes_)),
          start_(first_huge_page(mapped_)) {
        (void)::madvise(start_, plan.bytes(), MADV_HUGEPAGE); // a wish: small pages do as well, only slower
    }
    ~StagingMemory() { ::munmap(mapped_, mapped_bytes_); }
    StagingMemory(const StagingMemory&) = delete;
    StagingMemory& operator=(const StagingMemory&) = delete;

    void* data() const { return start_; }
    size_t bytes() const { return plan_.bytes(); }

    // Where a reader puts a piece of the input.
    float* ring_buffer(int index) const {
        return reinterpret_cast<float*>(start_ + static_cast<size_t>(index) * plan_.piece_bytes);
    }
    // Where a writer takes output from.
    float* writer_buffer(int writer) const {
        return reinterpret_cast<float*>(start_ + static_cast<size_t>(plan_.ring_buffers) * plan_.piece_bytes +
                                        static_cast<size_t>(writer) * plan_.part_bytes);
    }

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

    StagingPlan plan_;
    size_t mapped_bytes_;
    void* mapped_;
    unsigned char* start_;
};

} // namespace hw4
