#include "src/cpu/kernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "src/base/parallel.h"
#include "src/cpu/aligned_memory.h"

namespace hw4::cpu {
namespace {

constexpr int64_t kManyHeads = 8;  // of keys, per thread
constexpr int64_t kManyBlocks = 2; // per thread: the long blocks among them occupy the threads once

// Bytes of one head's prepared keys; the heads are adjacent.
size_t prepared_stride(const BlockKernel& blocks, const Problem& problem) {
    if (blocks.prepare == nullptr) return 0;
    return (blocks.prepared_bytes(problem.keys, problem.dim) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

int64_t parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// The heads of one launch: each head of keys and values, with its group of heads of queries. For kernels that prepare:
// with many heads, or heads of only one block of rows, each thread takes whole heads and prepares one after the other
// in the same memory, which stays in its cache. With few heads, all threads first prepare all of them, tile by tile, so
// that even a single head keeps all threads busy.
class HeadWork {
public:
    HeadWork(const BlockKernel& kernel, const Launch& launch)
        : kernel_(kernel), launch_(launch), problem_(launch.problem),
          scale_(scale_for(problem_.key_dim(), problem_.scale)), heads_(problem_.batches * problem_.kv_heads),
          group_(problem_.heads / problem_.kv_heads), prepared_stride_(prepared_stride(kernel, problem_)),
          tiles_(kernel.tiles_of(problem_.keys)), row_blocks_(parts(problem_.queries, kernel.block_rows)),
          blocks_(group_ * row_blocks_), tiles_left_(heads_ * tiles_) {}

    void run() {
        if (divides_keys(kernel_, problem_, heads_ * blocks_, launch_.threads)) return divide_keys();
        const int workers = static_cast<int>(std::min<int64_t>(launch_.threads, heads_ * blocks_));
        const int64_t most_rows = std::min(kernel_.block_rows, problem_.queries);
        const size_t workspace_floats = (kernel_.workspace_floats(most_rows, problem_.dim) + 15) / 16 * 16;
        const AlignedFloats workspaces = allocate_aligned(workspace_floats * static_cast<size_t>(workers));
        const bool prepares = kernel_.prepare != nullptr;
        const bool whole_heads = prepares && (blocks_ == 1 || heads_ >= kManyHeads * launch_.threads);
        std::atomic<int> next_worker{0};
        launch_.on_threads(workers, [&] {
            const int worker = next_worker.fetch_add(1);
            float* workspace = workspaces.get() + workspace_floats * static_cast<size_t>(worker);
            if (whole_heads) return take_heads(room(worker), workspace);
            if (prepares) prepare_tiles();
            take_blocks(workspace);
        });
    }

    // The number of prepared heads that scratch memory holds, in a launch of up to `heads` heads.
    static int64_t rooms(int64_t heads, int threads) { return std::min(heads, kManyHeads * threads); }

private:
    void take_heads(void* prepared, float* workspace) {
        for (int64_t head = 0; (head = next_head_.fetch_add(1)) < heads_;) {
            prepare(head, 0, tiles_, prepared);
            for (int64_t block = 0; block < blocks_; ++block) attend(head, block, prepared, workspace);
        }
    }

    void divide_keys() const {
        std::vector<RowBlock> blocks;
        for (int64_t head = 0; head < heads_; ++head)
            for (int64_t block = 0; block < blocks_; ++block) {
                const RowBlock rows = seeing_rows(head, block, nullptr);
                if (rows.rows > 0) blocks.push_back(rows);
            }
        attend_by_keys(kernel_, blocks, launch_);
    }

    // Returns when all tiles are prepared, by any thread.
    void prepare_tiles() {
        for (int64_t tile = 0; (tile = next_tile_.fetch_add(1)) < heads_ * tiles_;) {
            const int64_t head = tile / tiles_;
            prepare(head, tile % tiles_, tile % tiles_ + 1, room(head));
            if (tiles_left_.fetch_sub(1) == 1) all_prepared_.open();
        }
        all_prepared_.wait();
    }

    // Head after head or, under a mask, some heads at a time, so that their long blocks come before their short ones.
    void take_blocks(float* workspace) {
        const int64_t together = problem_.mask == Mask::none ? 1 : parts(kManyBlocks * launch_.threads, blocks_);
        for (int64_t block = 0; (block = next_block_.fetch_add(1)) < heads_ * blocks_;) {
            const int64_t first_head = block / (together * blocks_) * together;
            const int64_t heads = std::min(together, heads_ - first_head);
            const int64_t in_turn = block - first_head * blocks_;
            const int64_t head = first_head + in_turn % heads;
            attend(head, in_turn / heads, room(head), workspace);
        }
    }

    void prepare(int64_t head, int64_t first_tile, int64_t end_tile, void* prepared) const {
        const int64_t of_keys = launch_.keys_of(head / problem_.kv_heads);
        kernel_.prepare({keys(head), values(head), of_keys, problem_.dim, first_tile,
                         std::min(end_tile, kernel_.tiles_of(of_keys)), problem_.element},
                        prepared);
    }

    void attend(int64_t head, int64_t block, const void* prepared, float* workspace) const {
        const RowBlock rows = seeing_rows(head, block, prepared);
        if (rows.rows == 0) return;
        kernel_.attend(rows, workspace);
        launch_.done(rows.rows);
    }

    // The rows of a block that see a key, possibly none. Writes the output of rows that see none. Under a mask the last
    // rows of all heads of queries come first: they are the most work, and little is left when the threads end one
    // after the other. Without a mask the last block, which may be small, comes last.
    RowBlock seeing_rows(int64_t head, int64_t block, const void* prepared) const {
        const int64_t batch = head / problem_.kv_heads;
        const int64_t query_head = head % problem_.kv_heads * group_ + block % group_;
        const int64_t row_block = problem_.mask == Mask::none ? block / group_ : row_blocks_ - 1 - block / group_;
        const int64_t first_row = row_block * kernel_.block_rows;
        const int64_t end_row = std::min(first_row + kernel_.block_rows, problem_.queries);
        const auto row_of = [&](const Tensor& tensor, int64_t row) { return tensor.at(batch, query_head, row); };
        RowStatistics* const statistics = statistics_of(batch * problem_.heads + query_head);
        const int64_t of_keys = launch_.keys_of(batch);
        const int64_t first_seeing =
            std::clamp(blind_queries(problem_.mask, problem_.queries, of_keys), first_row, end_row);
        std::memset(row_of(launch_.out[0], first_row), 0,
                    static_cast<size_t>(first_seeing - first_row) * problem_.stored_row_bytes()); // +0 of any element
        if (statistics != nullptr) std::fill(statistics + first_row, statistics + first_seeing, RowStatistics{});
        if (first_seeing > first_row) launch_.done(first_seeing - first_row);
        return {row_of(launch_.in[0], first_seeing),
                keys(head),
                values(head),
                row_of(launch_.out[0], first_seeing),
                end_row - first_seeing,
                of_keys,
                problem_.dim,
                scale_,
                prepared,
                visible_keys(problem_.mask, problem_.queries, of_keys, first_seeing),
                statistics == nullptr ? nullptr : statistics + first_seeing,
                problem_.element,
                window_or_none(problem_.window)};
    }

    const void* keys(int64_t head) const {
        return launch_.in[1].at(head / problem_.kv_heads, head % problem_.kv_heads);
    }
    const void* values(int64_t head) const {
        return launch_.in[2].at(head / problem_.kv_heads, head % problem_.kv_heads);
    }

    // The statistics of a head of queries, counted through all batches. Null if they are not wanted.
    RowStatistics* statistics_of(int64_t unit) const {
        return launch_.statistics == nullptr ? nullptr : launch_.statistics + unit * problem_.queries;
    }

    // The memory for the prepared keys of a head, or of the head that a thread works on. Null if nothing is prepared.
    void* room(int64_t index) const {
        return prepared_stride_ == 0
                   ? nullptr
                   : static_cast<char*>(launch_.scratch) + static_cast<size_t>(index) * prepared_stride_;
    }

    const BlockKernel& kernel_;
    const Launch& launch_;
    const Problem& problem_;
    const Scale scale_;
    const int64_t heads_; // of keys and values, in all batches
    const int64_t group_; // heads of queries per head of keys
    const size_t prepared_stride_;
    const int64_t tiles_;      // in a head of keys
    const int64_t row_blocks_; // in a head of queries
    const int64_t blocks_;     // in a group of heads
    std::atomic<int64_t> next_head_{0};
    std::atomic<int64_t> next_tile_{0};
    std::atomic<int64_t> tiles_left_; // to be prepared
    std::atomic<int64_t> next_block_{0};
    Gate all_prepared_;
};

} // namespace

Plan plan_blocks(const Kernel& kernel, const Problem& problem, int threads) {
    const int64_t rooms = HeadWork::rooms(problem.batches * problem.kv_heads, threads);
    return {"", static_cast<size_t>(rooms) * prepared_stride(*kernel.blocks, problem)};
}

void launch_blocks(const Kernel& kernel, const Launch& launch) { HeadWork(*kernel.blocks, launch).run(); }

} // namespace hw4::cpu
