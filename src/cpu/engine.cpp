#include "engine.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "../error.h"
#include "../parallel.h"
#include "../progress.h"

namespace hw4::cpu {
namespace {

constexpr size_t kCacheLine = 64;

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

std::vector<float> chunk_buffer(const std::string& path, size_t floats) {
    try {
        return std::vector<float>(floats);
    } catch (const std::bad_alloc&) {
        throw Error(ExitCode::out_of_memory, path + ": one chunk of batches needs " +
                                                 std::to_string(floats * sizeof(float)) +
                                                 " bytes of host memory, which cannot be had");
    }
}

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

// The processors this process may run on, which can be fewer than the machine has.
int default_threads() {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
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
        for (int64_t block; (block = next_block.fetch_add(1)) < blocks;) {
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

RunReport run(CaseReader& input, OutputFile& output, const EngineOptions& options) {
    const Shape& shape = input.shape();
    const Kernel& kernel = choose_kernel(options.kernel);
    const int threads = options.threads > 0 ? options.threads : default_threads();
    RunReport report;
    report.device = "cpu";
    report.device_name = std::to_string(threads) + (threads == 1 ? " thread" : " threads");
    report.kernel = kernel.name;
    report.threads = threads;
    report.chunk_batches = options.chunk_batches > 0 ? options.chunk_batches : chunk_batches_for(shape, 1);

    const auto chunk = static_cast<size_t>(report.chunk_batches);
    std::vector<float> qkv = chunk_buffer(input.path(), chunk * shape.batch_input_floats());
    std::vector<float> out = chunk_buffer(input.path(), chunk * shape.matrix_floats());
    Progress progress("rows", static_cast<double>(shape.batches) * static_cast<double>(shape.tokens));
    for (int64_t first = 0; first < shape.batches; first += report.chunk_batches) {
        const int64_t count = std::min(report.chunk_batches, shape.batches - first);
        {
            const StageTimer timer(report.seconds.read);
            read_checked(input, first, count, qkv.data());
        }
        {
            const StageTimer timer(report.seconds.kernel);
            attend_batches(kernel, shape, count, qkv.data(), out.data(), threads,
                           [&](int64_t rows) { progress.add(static_cast<double>(rows)); });
        }
        const StageTimer timer(report.seconds.write);
        output.write(out.data(), static_cast<size_t>(count) * shape.batch_output_bytes());
    }
    input.expect_end();
    return report;
}

} // namespace hw4::cpu
