// How a warp of split_keys copies the keys and values of its segments to a ring of stages in shared memory.
#pragma once

#include "src/gpu/f32/forward/split_tile.cuh"

namespace hw4::gpu::split {

// A warp copies its segments, which are as far apart as the block has warps: K in parts of kPartKeys keys, then V. With
// kPaged, K and V are in pages. Rows lie in a stage without gaps: rows 16 bytes further apart, against bank conflicts,
// would make the copies of a row half as many sectors again, and reading slower. Instead, a row's pieces of 16 bytes
// change places.
template <class T, bool kPaged>
class Copies {
    using E = typename T::E;
    using Ring = E (&)[T::kStages][T::kStage];

public:
    __device__ explicit Copies(Ring ring) : ring_(ring) {}

    // Where the piece that begins at `column` lies in row `row`: eight rows' pieces of one column are in different
    // banks.
    static __device__ __forceinline__ int place_of(int row, int column) {
        return row * T::kDim + (column ^ row % 8 * T::kPiece);
    }

    // Starts to copy the work's segments of warp `warp` of `warps`. If `tile` is not below 0, the keys of that tile
    // come before them.
    __device__ __forceinline__ void begin(const Args& args, const Work& work, int warp, int warps, int tile) {
        const Unit& unit = work.unit;
        const int kv_head = unit.in_batch / args.row_blocks;
        const int batch = kPaged ? 0 : unit.batch;
        keys_ = static_cast<int>(args.keys_of(unit.batch));
        next_ = (work.first + warp) * kSegmentKeys;
        distance_ = warps * kSegmentKeys;
        is_tile_ = tile >= 0;
        key_ = is_tile_ ? tile * kKeyTile : next_;
        k_ = bytes_at(args.k.template of<E>(batch, kv_head) + column()) + row_bytes(args.k_step, kPaged ? 0 : key_);
        v_ = bytes_at(args.v.template of<E>(batch, kv_head) + column()) + row_bytes(args.v_step, kPaged ? 0 : next_);
        left_ = max(work.end - work.first - warp + warps - 1, 0) / warps * 2 * T::kParts + (is_tile_ ? kTileParts : 0);
        stage_ = 0;
        part_ = 0;
        if (kPaged) {
            table_ = args.pages.at + unit.batch * args.pages.columns;
            pages_ = pages_of(args, key_);
            next_pages_ = pages_of(args, is_tile_ ? next_ : next_ + distance_);
        }
#pragma unroll 1
        for (int stage = 0; stage < T::kStages; ++stage) copy(args, stage);
    }

    // Waits until the next kCount parts are there.
    template <int kCount>
    __device__ __forceinline__ void wait() const {
        wait_for_copies<T::kStages - kCount>();
        __syncwarp(); // for the other lanes' copies
    }

    // The part that comes `ahead` parts after the next one.
    __device__ __forceinline__ const E* part(int ahead) const {
        const int stage = stage_ + ahead;
        return ring_[stage < T::kStages ? stage : stage - T::kStages];
    }

    // All lanes are done with the next kCount parts: others take their stages.
    template <int kCount>
    __device__ __forceinline__ void pass(const Args& args) {
        __syncwarp();
#pragma unroll 1
        for (int i = 0; i < kCount; ++i) {
            copy(args, stage_);
            stage_ = stage_ + 1 == T::kStages ? 0 : stage_ + 1;
        }
    }

private:
    static constexpr int kLeastPage = 16;
    static constexpr int kPieces = T::kRowPieces;
    static constexpr int kTogether = T::kRowsTogether;
    static constexpr int kOfRow = kPieces < kWarpSize ? 1 : kPieces / kWarpSize; // pieces of a lane
    static constexpr int kTileParts = T::kGroupKeys > kKeyTile ? T::kGroupParts : kKeyTile / T::kPartKeys;

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
    static __device__ __forceinline__ int row() { return lane() / kPieces; }
    static __device__ __forceinline__ int column() { return lane() % kPieces * T::kPiece; }

    // In lane i: the page of the i-th 16 keys from `key` on.
    __device__ __forceinline__ int pages_of(const Args& args, int key) const {
        key += lane() * kLeastPage;
        if (!kPaged || lane() >= kSegmentKeys / kLeastPage || key >= keys_) return 0;
        const int page = __ldg(table_ + (key >> args.page_shift));
        return args.pages.has(page) ? page : 0;
    }

    static __device__ __forceinline__ const char* bytes_at(const E* at) { return reinterpret_cast<const char*>(at); }

    // The bytes between rows `keys` + lane's row and 0, where rows that are copied together are `step` bytes apart from
    // the next ones. `keys` is a multiple of kTogether.
    static __device__ __forceinline__ int64_t row_bytes(int64_t step, int keys) {
        return keys / kTogether * step + row() * (step / kTogether);
    }

    // Copies the next part, if there is one. Keys that do not exist are zeros.
    __device__ __forceinline__ void copy(const Args& args, int stage) {
        if (left_ > 0) {
            const bool is_k = part_ < T::kParts;
            const int64_t step = is_k ? args.k_step : args.v_step;
            const char* from = is_k ? k_ : v_;
            if (kPaged) {
                const int64_t page = __shfl_sync(kAllLanes, pages_, part_ % T::kParts * T::kPartKeys / kLeastPage);
                const int in_page = key_ & ((1 << args.page_shift) - 1);
                from += page * (is_k ? args.k.batch : args.v.batch) * static_cast<int>(sizeof(E)) +
                        in_page / kTogether * step;
            }
            copy_rows(args, ring_[stage], from, step, keys_ - key_);
            if (!kPaged) (is_k ? k_ : v_) = from + T::kPartKeys / kTogether * step;
            --left_;
            ++part_;
            key_ += T::kPartKeys;
            if (is_tile_ && part_ == kTileParts) {
                if (!kPaged) k_ += (next_ - key_) / kTogether * args.k_step;
                key_ = next_;
                begin_segment(args);
            } else if (part_ == T::kParts) {
                key_ -= kSegmentKeys;
            } else if (part_ == 2 * T::kParts) {
                const int others = distance_ - kSegmentKeys;
                if (!kPaged) k_ += others / kTogether * args.k_step;
                if (!kPaged) v_ += others / kTogether * args.v_step;
                key_ += others;
                begin_segment(args);
            }
        }
        end_group_of_copies();
    }

    __device__ __forceinline__ void begin_segment(const Args& args) {
        part_ = 0;
        is_tile_ = false;
        pages_ = next_pages_;
        next_pages_ = pages_of(args, key_ + distance_);
    }

    // `count` rows exist.
    __device__ __forceinline__ void copy_rows(const Args& args, E* to, const char* from, int64_t step,
                                              int count) const {
        constexpr int kSpan = kWarpSize * T::kPiece; // elements that all lanes copy of a row
        if (count >= T::kPartKeys && args.dim == T::kDim) {
#pragma unroll
            for (int y = 0; y < T::kPartKeys; y += kTogether, from += step)
#pragma unroll
                for (int i = 0; i < kOfRow; ++i)
                    copy_async<16>(to + y / 8 * 8 * T::kDim + place_of(y % 8 + row(), i * kSpan + column()),
                                   from + i * kSpan * sizeof(E));
        } else {
#pragma unroll 1
            for (int y = row(); y < T::kPartKeys; y += kTogether, from += step)
#pragma unroll
                for (int i = 0; i < kOfRow; ++i) {
                    const bool there = i * kSpan + column() < args.dim && y < count;
                    const void* const source = from + i * kSpan * sizeof(E);
                    copy_async<16>(to + place_of(y, i * kSpan + column()), there ? source : args.k.at, there);
                }
        }
    }

    Ring ring_;
    // The lane's piece of the next row of K and of V; with pages, of the first row of page 0.
    const char* k_ = nullptr;
    const char* v_ = nullptr;
    const int32_t* table_ = nullptr; // with pages: those of the batch
    int keys_ = 0;                   // of the batch
    int key_ = 0;                    // the first of the part that is copied next
    int next_ = 0;                   // the first of this warp's segments
    int distance_ = 0;               // from the warp's segment to its next one
    int part_ = 0;                   // of the segment, which is copied next
    int left_ = 0;                   // parts that are still to be copied
    int stage_ = 0;                  // of the part that is needed next
    bool is_tile_ = false;           // a tile is copied, not a segment
    int pages_ = 0;
    int next_pages_ = 0;
};

} // namespace hw4::gpu::split
