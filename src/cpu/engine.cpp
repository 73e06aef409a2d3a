#include "src/cpu/engine.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "src/base/error.h"
#include "src/base/gate.h"
#include "src/base/parallel.h"
#include "src/run/progress.h"

namespace hw4::cpu {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kLargeChunkBytes = size_t{64} << 20;
constexpr int64_t kManyBatches = 8; // a thread

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

std::string name_list(Arithmetic arithmetic) {
    std::string names;
    for (const Kernel* kernel : kernels())
        if (kernel->arithmetic == arithmetic) names += (names.empty() ? "" : ", ") + std::string(kernel->name);
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

// What is prepared of one batch, for one after the other in the same memory.
size_t prepared_stride(const Kernel& kernel, const Shape& shape) {
    if (kernel.prepare == nullptr) return 0;
    return (kernel.prepared_bytes(shape.tokens, shape.dim) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

int64_t parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// The batches of one call. A kernel that prepares: with many batches, or such small ones that a block of rows is all of
// one, each thread takes whole batches and prepares them one after the other in the same memory, which stays in its
// cache. With few, all threads prepare all of them first, tile by tile, so that a single batch keeps all threads busy.
class BatchWork {
public:
    BatchWork(const Kernel& kernel, const Shape& shape, int64_t count, const float* qkv, float* out, void* prepared,
              const std::function<void(int64_t rows)>& done)
        : kernel_(kernel), shape_(shape), scale_(scale_for(shape.dim)), count_(count), qkv_(qkv), out_(out),
          prepared_(static_cast<char*>(prepared)), done_(done), prepared_stride_(prepared_stride(kernel, shape)),
          tiles_(parts(shape.tokens, kPreparedKeys)), blocks_(parts(shape.tokens, kernel.block_rows)),
          tiles_left_(count * tiles_) {}

    void run(int threads) {
        const int workers = static_cast<int>(std::min<int64_t>(threads, count_ * blocks_));
        const int64_t most_rows = std::min(kernel_.block_rows, shape_.tokens);
        const size_t workspace_floats = (kernel_.workspace_floats(most_rows, shape_.dim) + 15) / 16 * 16;
        const AlignedFloats workspaces = allocate_aligned(workspace_floats * static_cast<size_t>(workers));
        const bool prepares = kernel_.prepare != nullptr;
        const bool whole_batches = prepares && (blocks_ == 1 || count_ >= kManyBatches * threads);
        std::atomic<int> next_worker{0};
        on_threads(workers, [&] {
            const int worker = next_worker.fetch_add(1);
            float* workspace = workspaces.get() + workspace_floats * static_cast<size_t>(worker);
            if (whole_batches) return take_batches(room(worker), workspace);
            if (prepares) prepare_tiles();
            take_blocks(workspace);
        });
    }

private:
    void take_batches(void* prepared, float* workspace) {
        for (int64_t batch = 0; (batch = next_batch_.fetch_add(1)) < count_;) {
            prepare(batch, 0, tiles_, prepared);
            for (int64_t block = 0; block < blocks_; ++block) attend(batch, block, prepared, workspace);
        }
    }

    // Returns when all are prepared, by whomever.
    void prepare_tiles() {
        for (int64_t tile = 0; (tile = next_tile_.fetch_add(1)) < count_ * tiles_;) {
            const int64_t batch = tile / tiles_;
            prepare(batch, tile % tiles_, tile % tiles_ + 1, room(batch));
            if (tiles_left_.fetch_sub(1) == 1) all_prepared_.open();
        }
        all_prepared_.wait();
    }

    void take_blocks(float* workspace) {
        for (int64_t block = 0; (block = next_block_.fetch_add(1)) < count_ * blocks_;) {
            const int64_t batch = block / blocks_;
            attend(batch, block % blocks_, room(batch), workspace);
        }
    }

    void prepare(int64_t batch, int64_t first_tile, int64_t end_tile, void* prepared) const {
        kernel_.prepare({matrix(batch, 1), matrix(batch, 2), shape_.tokens, shape_.dim, first_tile, end_tile},
                        prepared);
    }

    void attend(int64_t batch, int64_t block, const void* prepared, float* workspace) const {
        const int64_t first_row = block * kernel_.block_rows;
        const int64_t rows = std::min(kernel_.block_rows, shape_.tokens - first_row);
        float* o = out_ + static_cast<size_t>(batch) * shape_.matrix_floats();
        kernel_.attend({matrix(batch, 0) + first_row * shape_.dim, matrix(batch, 1), matrix(batch, 2),
                        o + first_row * shape_.dim, rows, shape_.tokens, shape_.dim, scale_, prepared},
                       workspace);
        done_(rows);
    }

    // 0, 1, 2: Q, K, V.
    const float* matrix(int64_t batch, size_t which) const {
        return qkv_ + static_cast<size_t>(batch) * shape_.batch_input_floats() + which * shape_.matrix_floats();
    }

    // For what is prepared: of a batch, or by a worker. Null where nothing is.
    void* room(int64_t index) const {
        return prepared_stride_ == 0 ? nullptr : prepared_ + static_cast<size_t>(index) * prepared_stride_;
    }

    const Kernel& kernel_;
    const Shape& shape_;
    const Scale scale_;
    const int64_t count_;
    const float* const qkv_;
    float* const out_;
    char* const prepared_;
    const std::function<void(int64_t rows)>& done_;
    const size_t prepared_stride_;
    const int64_t tiles_;  // of a batch
    const int64_t blocks_; // likewise
    std::atomic<int64_t> next_batch_{0};
    std::atomic<int64_t> next_tile_{0};
    std::atomic<int64_t> tiles_left_; // to be prepared
    std::atomic<int64_t> next_block_{0};
    Gate all_prepared_;
};

class CpuEngine : public Engine {
public:
    explicit CpuEngine(const EngineRequest& request)
        : shape_(request.shape), kernel_(choose_kernel(request.options.kernel, request.options.arithmetic)),
          threads_(request.options.threads > 0 ? request.options.threads : available_processors()),
          chunk_batches_(planned_batches(request)), pen_(request.pen),
          progress_("rows", static_cast<double>(shape_.output_rows())) {
        const auto chunk = static_cast<size_t>(chunk_batches_);
        for (int i = 0; i < slot_count(shape_, chunk_batches_); ++i)
            slots_.push_back({chunk_buffer(request.input, chunk * shape_.batch_input_floats()),
                              chunk_buffer(request.input, chunk * shape_.matrix_floats())});
        const size_t room = prepared_room(kernel_, shape_, chunk_batches_, threads_);
        if (room > 0) prepared_ = chunk_buffer(request.input, room / sizeof(float));
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
                           prepared_.get(), threads_, [&](int64_t rows) { progress_.add(static_cast<double>(rows)); });
        });
    }

    const float* fetch(const RowsOut& rows) override { return slot(rows.slot).out.get() + rows.first_row * shape_.dim; }

    EngineFacts finish() override {
        EngineFacts facts;
        facts.device = "cpu";
        facts.device_name = std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
        facts.kernel = kernel_.name;
        facts.arithmetic = kernel_.arithmetic;
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
    AlignedFloats prepared_; // of the chunk that is computed; none where the kernel prepares nothing
};

} // namespace

const Kernel& choose_kernel(const std::string& name, Arithmetic arithmetic) {
    for (const Kernel* kernel : kernels()) {
        const bool best = name.empty() && kernel->arithmetic == arithmetic && kernel->supported();
        if (!best && name != kernel->name) continue;
        refuse_other_arithmetic(name, kernel->arithmetic, arithmetic);
        if (!kernel->supported())
            throw Error(ExitCode::usage, "kernel '" + name + "': this processor does not support it");
        return *kernel;
    }
    throw Error(ExitCode::usage, "no CPU kernel '" + name + "', there are: " + name_list(arithmetic));
}

size_t prepared_room(const Kernel& kernel, const Shape& shape, int64_t most, int threads) {
    return static_cast<size_t>(std::min(most, kManyBatches * threads)) * prepared_stride(kernel, shape);
}

void attend_batches(const Kernel& kernel, const Shape& shape, int64_t count, const float* qkv, float* out,
                    void* prepared, int threads, const std::function<void(int64_t rows)>& done) {
    BatchWork(kernel, shape, count, qkv, out, prepared, done).run(threads);
}

void attend_batches(const Kernel& kernel, const Shape& shape, int64_t count, const float* qkv, float* out,
                    int threads) {
    const size_t room = prepared_room(kernel, shape, count, threads);
    const AlignedFloats prepared = room == 0 ? nullptr : allocate_aligned(room / sizeof(float));
    attend_batches(kernel, shape, count, qkv, out, prepared.get(), threads, [](int64_t) {});
}

std::unique_ptr<Engine> make_engine(const EngineRequest& request) { return std::make_unique<CpuEngine>(request); }

} // namespace hw4::cpu
