// Few query rows and many keys: threads divide the keys. The sums do not depend on where they cut: a segment of 64 keys
// has sums of its own, and the totals add them in order.
//
// A thread takes a part of 512 keys at a time and assumes that the rows' references are 0 there, as they are on
// ordinary data. The largest scores of all tiles then show which reference each part should have started with; a part
// that assumed another one is computed again. Finally the sums of all parts are added in the contract's order.
#include <algorithm>
#include <atomic>
#include <vector>

#include "src/contracts/fma_clones.h"
#include "src/cpu/aligned_memory.h"
#include "src/cpu/kernels.h"

namespace hw4::cpu {
namespace {

constexpr int64_t kMostRows = 16; // per head of keys, on average

// The first key of the first segment in which the block's rows see a key.
int64_t first_key_of(const RowBlock& block) { return block.from(0) / kSegmentKeys * kSegmentKeys; }
int64_t parts_of(const RowBlock& block) {
    return (block.sees(block.rows - 1) - first_key_of(block) + kPartKeys - 1) / kPartKeys;
}

// The results of the parts of one block.
struct Parts {
    RowBlock block;
    int64_t count = 0;
    std::vector<RowPart> rows;    // [part][row]
    std::vector<char> is_settled; // [part], whether the part started with the right references
    AlignedFloats sums;           // [part][segment][row][dim]

    explicit Parts(const RowBlock& of)
        : block(of), count(parts_of(of)), rows(static_cast<size_t>(count * of.rows)),
          is_settled(static_cast<size_t>(count)),
          sums(allocate_aligned(static_cast<size_t>(count * kPartSegments * of.rows * of.dim))) {}

    RowPart* rows_of(int64_t part) { return rows.data() + part * block.rows; }
    float* sums_of(int64_t part) const { return sums.get() + part * kPartSegments * block.rows * block.dim; }
    int64_t first_key(int64_t part) const { return first_key_of(block) + part * kPartKeys; }
    int64_t keys(int64_t part) const { return std::min(kPartKeys, block.sees(block.rows - 1) - first_key(part)); }
};

void assume_starts(Parts& parts) {
    for (int64_t part = 0; part < parts.count; ++part)
        for (int64_t row = 0; row < parts.block.rows; ++row)
            parts.rows_of(part)[row].start = part == 0 ? empty_reference() : reference_at(0.0f, parts.block.scale);
}

// Computes from the scores the references that the parts should have started with; marks the parts that had others.
void settle_starts(Parts& parts) {
    std::fill(parts.is_settled.begin(), parts.is_settled.end(), char{1});
    for (int64_t row = 0; row < parts.block.rows; ++row) {
        Reference reference = empty_reference();
        for (int64_t part = 0; part < parts.count; ++part) {
            RowPart& one = parts.rows_of(part)[row];
            if (one.start.M != reference.M || one.start.origin != reference.origin)
                parts.is_settled[static_cast<size_t>(part)] = 0;
            one.start = reference;
            for (int64_t tile = 0; tile * kKeyTile < parts.keys(part); ++tile)
                if (!reference.covers(one.largest[tile]))
                    reference = reference_at(one.largest[tile], parts.block.scale);
        }
    }
}

// A row's sums in order, its output and its statistics. Not inlined, so that the loader picks the version with FMA
// instructions.
HW4_FMA_CLONES void fold_row(Parts& parts, int64_t row, float* total) {
    const RowBlock& block = parts.block;
    const int64_t dim = block.dim;
    float lanes[kSumLanes] = {};
    std::fill_n(total, dim, 0.0f);
    for (int64_t part = 0; part < parts.count; ++part) {
        const RowPart& one = parts.rows_of(part)[row];
        for (int64_t tile = 0; tile * kKeyTile < parts.keys(part); ++tile)
            for (int lane = 0; lane < kSumLanes; ++lane)
                lanes[lane] = lanes[lane] * one.raised[tile] + one.shares[tile][lane];
        for (int64_t segment = 0; segment * kSegmentKeys < parts.keys(part); ++segment) {
            const float* const sums = parts.sums_of(part) + (segment * block.rows + row) * dim;
            for (int64_t x = 0; x < dim; ++x) total[x] = fused(total[x], one.rescale[segment], sums[x]);
        }
    }
    const float l = close_lanes(lanes);
    const float inv = 1.0f / l;
    float* const out = static_cast<float*>(block.out) + row * dim;
    for (int64_t x = 0; x < dim; ++x) out[x] = result(total[x], inv);
    const Reference& end = parts.rows_of(parts.count - 1)[row].end;
    if (block.statistics != nullptr) block.statistics[row] = {end.M, end.origin, l};
}

size_t whole_lines(size_t floats) { return (floats + 15) / 16 * 16; }

class KeyWork {
public:
    KeyWork(const BlockKernel& kernel, const std::vector<RowBlock>& blocks, const Launch& launch)
        : kernel_(kernel), launch_(launch) {
        blocks_.reserve(blocks.size());
        for (const RowBlock& block : blocks) {
            Parts& parts = blocks_.emplace_back(block);
            for (int64_t part = 0; part < parts.count; ++part) pieces_.push_back({&parts, part});
            for (int64_t row = 0; row < block.rows; ++row) rows_.push_back({&parts, row});
            workspace_ = std::max({workspace_, whole_lines(kernel.workspace_floats(block.rows, block.dim)),
                                   whole_lines(static_cast<size_t>(block.dim))});
        }
    }

    void run() {
        const int workers = static_cast<int>(std::min(static_cast<size_t>(launch_.threads), pieces_.size()));
        workspaces_ = allocate_aligned(workspace_ * static_cast<size_t>(workers));
        for (Parts& parts : blocks_) assume_starts(parts);
        attend_unsettled(workers);
        for (Parts& parts : blocks_) settle_starts(parts);
        attend_unsettled(workers);
        on_threads(workers, rows_,
                   [](const Piece& piece, float* workspace) { fold_row(*piece.parts, piece.index, workspace); });
        for (const Parts& parts : blocks_) launch_.done(parts.block.rows);
    }

private:
    struct Piece {
        Parts* parts;
        int64_t index; // of a part or a row
    };

    template <class Work>
    void on_threads(int workers, const std::vector<Piece>& pieces, const Work& work) {
        std::atomic<size_t> next_worker{0};
        std::atomic<size_t> next{0};
        launch_.on_threads(workers, [&] {
            float* const workspace = workspaces_.get() + workspace_ * next_worker.fetch_add(1);
            for (size_t i = 0; (i = next.fetch_add(1)) < pieces.size();) work(pieces[i], workspace);
        });
    }

    void attend_unsettled(int workers) {
        on_threads(workers, pieces_, [this](const Piece& piece, float* workspace) {
            Parts& parts = *piece.parts;
            if (parts.is_settled[static_cast<size_t>(piece.index)] == 0)
                kernel_.attend_part(parts.block, parts.first_key(piece.index), parts.rows_of(piece.index),
                                    parts.sums_of(piece.index), workspace);
        });
    }

    const BlockKernel& kernel_;
    const Launch& launch_;
    std::vector<Parts> blocks_;
    std::vector<Piece> pieces_; // parts of all blocks
    std::vector<Piece> rows_;   // of all blocks
    size_t workspace_ = 0;      // floats of a thread
    AlignedFloats workspaces_;
};

} // namespace

// Whether dividing keys pays: fewer blocks of rows than threads, several parts of keys, and at most 16 rows for each
// head of keys. With more rows the sums of all segments take long: with 40 rows and 131072 keys two threads of a Xeon
// with AVX-512 needed 60 ms, one thread without them 47 ms. One row takes 26 ms, not 46, 16 rows 39, not 47.
bool divides_keys(const BlockKernel& kernel, const Problem& problem, int64_t blocks, int threads) {
    if (kernel.attend_part == nullptr || blocks >= threads) return false;
    const int64_t rows = problem.units() * problem.queries;
    return problem.keys > kPartKeys && rows <= kMostRows * problem.batches * problem.kv_heads;
}

void attend_by_keys(const BlockKernel& kernel, const std::vector<RowBlock>& blocks, const Launch& launch) {
    KeyWork(kernel, blocks, launch).run();
}

} // namespace hw4::cpu
