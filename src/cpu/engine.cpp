#include "engine.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "../error.h"
#include "../parallel.h"
#include "../progress.h"

namespace hw4::cpu {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kLargeChunkBytes = size_t{64} << 20;

struct Free {
    void operator()(float* p) const { std::free(p); }
};
using AlignedFloats = std::unique_ptr<float[], Free>;

AlignedFloats allocate_aligned(size_t floats) {
    const size_t bytes = (floats * sizeof(float) + kCacheLine - 1) / kCacheLine * kCacheLine;
    void* memory = std::aligned_alloc(kCacheLine, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return AlignedFloats(static_cast<float*>(memory));
}

std::string name_list() {
    std::string names;
    for (const Kernel* kernel : kernels()) names += (names.empty() ? "" : ", ") + std::string(kernel->name);
    return names;
}

AlignedFloats chunk_buffer(const std::string& path, size_t floats) {
    try {
        return allocate_aligned(floats);
    } catch (const std::bad_alloc&) {
        throw Error(ExitCode::out_of_memory, path + ": one chunk of batches needs " +
                                                 std::to_string(floats * sizeof(float)) +
                                                 " bytes of host memory, which cannot be had");
    }
}

int64_t planned_batches(const EngineRequest& request) {
    return request.options.chunk_batches > 0 ? request.options.chunk_batches : chunk_batches_for(request.shape, 1);
}

// Two, so that one chunk's output is written while the next is computed; one where a chunk is large.
int slot_count(const Shape& shape, int64_t batches) {
    const auto chunk_bytes = static_cast<size_t>(batches) * shape.batch_input_bytes();
    return batches < shape.batches && chunk_bytes <= kLargeChunkBytes ? 2 : 1;
}

class CpuEngine : public Engine {
public:
    explicit CpuEngine(const EngineRequest& request)
        : shape_(request.shape), kernel_(choose_kernel(request.options.kernel)),
          threads_(request.options.threads > 0 ? request.options.threads : available_processors()),
          chunk_batches_(planned_batches(request)), pen_(request.pen),
          progress_("rows", static_cast<double>(shape_.output_rows())) {
        const auto chunk = static_cast<size_t>(chunk_batches_);
        for (int i = 0; i < slot_count(shape_, chunk_batches_); ++i)
            slots_.push_back({chunk_buffer(request.input, chunk * shape_.batch_input_floats()),
                              chunk_buffer(request.input, chunk * shape_.matrix_floats())});
    }

    int slots() const override { return static_cast<int>(slots_.size()); }
    int64_t chunk_batches() const override { return chunk_batches_; }
    int64_t queries_at_once() const override { return shape_.tokens; }

    void copy_in(const RowsIn& rows) override {
        const size_t bytes = static_cast<size_t>(rows.rows) * shape_.row_bytes();
        pen_.time(Stage::copy_in, bytes,
                  [&] { std::memcpy(slot(rows.slot).qkv.get() + rows.first_row * shape_.dim, rows.from, bytes); });
    }
    void wait_until_copied(int) override {}

    void compute(const Work& work) override {
        pen_.time(Stage::kernel, 0, [&] {
            attend_batches(kernel_, shape_, work.batches, slot(work.slot).qkv.get(), slot(work.slot).out.get(),
                           threads_, [&](int64_t rows) { progress_.add(static_cast<double>(rows)); });
        });
    }

    const float* fetch(const RowsOut& rows) override { return slot(rows.slot).out.get() + rows.first_row * shape_.dim; }

    EngineFacts finish() override {
        EngineFacts facts;
        facts.device = "cpu";
        facts.device_name = std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
        facts.kernel = kernel_.name;
        facts.threads = threads_;
        facts.chunk_batches = chunk_batches_;
        facts.queries_at_once = shape_.tokens;
        return facts;
    }

private:
    struct Slot {
        AlignedFloats qkv; // [chunk_batches][3][tokens][dim]
        AlignedFloats out; // [chunk_batches][tokens][dim]
    };
    const Slot& slot(int index) const { return slots_[static_cast<size_t>(index)]; }

    const Shape shape_;
    const Kernel& kernel_;
    const int threads_;
    const int64_t chunk_batches_;
    const Pen pen_;
    Progress progress_;
    std::vector<Slot> slots_;
};

} // namespace

const Kernel& choose_kernel(const std::string& name) {
    for (const Kernel* kernel : kernels()) {
        if (name.empty() && kernel->supported()) return *kernel;
        if (name != kernel->name) continue;
        if (!kernel->supported())
            throw Error(ExitCode::usage, "kernel '" + name + "': this processor does not support it");
        return *kernel;
    }
    throw Error(ExitCode::usage, "no CPU kernel '" + name + "', there are: " + name_list());
}

void attend_batches(const Kernel& kernel, const Shape& shape, int64_t count, const float* qkv, float* out, int threads,
                    const std::function<void(int64_t rows)>& done) {
    const Scale scale = scale_for(shape.dim);
    const int64_t blocks_per_batch = (shape.tokens + kernel.block_rows - 1) / kernel.block_rows;
    const int64_t blocks = count * blocks_per_batch;
    const int workers = static_cast<int>(std::min<int64_t>(threads, blocks));
    const size_t workspace_floats = (kernel.workspace_floats(shape.dim) + 15) / 16 * 16;
    const AlignedFloats workspaces = allocate_aligned(workspace_floats * static_cast<size_t>(workers));
    std::atomic<int> next_worker{0};
    std::atomic<int64_t> next_block{0};

    on_threads(workers, [&] {
        float* workspace = workspaces.get() + workspace_floats * static_cast<size_t>(next_worker.fetch_add(1));
        for (int64_t block = 0; (block = next_block.fetch_add(1)) < blocks;) {
            const int64_t batch = block / blocks_per_batch;
            const int64_t first_row = block % blocks_per_batch * kernel.block_rows;
            const int64_t rows = std::min(kernel.block_rows, shape.tokens - first_row);
            const float* q = qkv + static_cast<size_t>(batch) * shape.batch_input_floats();
            const float* k = q + shape.matrix_floats();
            const float* v = k + shape.matrix_floats();
            float* o = out + static_cast<size_t>(batch) * shape.matrix_floats();
            kernel.attend(
                {q + first_row * shape.dim, k, v, o + first_row * shape.dim, rows, shape.tokens, shape.dim, scale},
                workspace);
            done(rows);
        }
    });
}

std::unique_ptr<Engine> make_engine(const EngineRequest& request) { return std::make_unique<CpuEngine>(request); }

} // namespace hw4::cpu
