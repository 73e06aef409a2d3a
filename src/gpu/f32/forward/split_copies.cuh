// How a warp of split_keys copies the keys and values of its segments to a ring of stages in shared memory.
#pragma once

#include "src/gpu/f32/forward/split_tile.cuh"

namespace hw4::gpu::split {

// A warp copies its segments, which are as far apart as the block has warps: K in parts of kPartKeys keys, then V. Rows
// lie in a stage without gaps: rows 16 bytes further apart, against bank conflicts, would make the copies of a row half
// as many sectors again, and reading slower. Instead, a row's pieces of 16 bytes change places.
template <class T>
class Copies {
    using E = typename T::E;
    using Ring = E (&)[T::kStages][T::kStage];
    enum class Rows { tile, k, v }; // a tile's keys, a segment's keys, its values

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
        const bool paged = is_paged(args);
        const int batch = paged ? 0 : unit.batch;
        keys_ = static_cast<int>(args.keys_of(unit.batch));
        next_ = (work.first + warp) * kSegmentKeys;
        distance_ = warps * kSegmentKeys;
        const int first = tile >= 0 ? tile * kKeyTile : next_;
        const char* const k = bytes_at(args.k.template of<E>(batch, kv_head) + column());
        const char* const v = bytes_at(args.v.template of<E>(batch, kv_head) + column());
        from_ = k + row() * (args.k_step / kTogether);
        other_ = v + row() * (args.v_step / kTogether);
        segments_ = max(work.end - work.first - warp + warps - 1, 0) / warps;
        parts_ = 0;
        stage_ = 0;
        if (paged) {
            table_ = args.pages.at + unit.batch * args.pages.columns;
            next_pages_ = pages_of(args, first);
        }
        if (tile >= 0 || segments_ > 0) begin_rows(args, first, tile >= 0 ? Rows::tile : Rows::k);
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
    static constexpr int64_t kDenseStep = int64_t{kTogether} * T::kDim * static_cast<int>(sizeof(E));
    static constexpr int kTileParts = T::kGroupKeys > kKeyTile ? T::kGroupParts : kKeyTile / T::kPartKeys;

    static __device__ __forceinline__ bool is_paged(const Args& args) { return args.pages.at != nullptr; }
    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
    static __device__ __forceinline__ int row() { return lane() / kPieces; }
    static __device__ __forceinline__ int column() { return lane() % kPieces * T::kPiece; }

    // In lane i: the page of the i-th 16 keys from `key` on.
    __device__ __forceinline__ int pages_of(const Args& args, int key) const {
        key += lane() * kLeastPage;
        if (lane() >= kSegmentKeys / kLeastPage || key >= keys_) return 0;
        const int page = __ldg(table_ + (key >> args.page_shift));
        return args.pages.has(page) ? page : 0;
    }

    static __device__ __forceinline__ const char* bytes_at(const E* at) { return reinterpret_cast<const char*>(at); }

    // The rows that are copied next, from `key` on.
    __device__ __forceinline__ void begin_rows(const Args& args, int key, Rows rows) {
        rows_ = rows;
        key_ = key;
        parts_ = rows == Rows::tile ? kTileParts : T::kParts;
        step_ = rows == Rows::v ? args.v_step : args.k_step;
        are_whole_ = key + parts_ * T::kPartKeys <= keys_ && args.dim == T::kDim;
        are_dense_ = are_whole_ && step_ == kDenseStep;
        if (!is_paged(args) || rows == Rows::v) return;
        pages_ = next_pages_;
        next_pages_ = pages_of(args, rows == Rows::tile ? next_ : key + distance_);
    }

    // Copies the next part, if there is one.
    __device__ __forceinline__ void copy(const Args& args, int stage) {
        if (parts_ > 0) {
            const char* from = from_;
            int key = key_; // in its page
            if (is_paged(args)) {
                const int copied = (rows_ == Rows::tile ? kTileParts : T::kParts) - parts_;
                const int64_t page = __shfl_sync(kAllLanes, pages_, copied * T::kPartKeys / kLeastPage);
                key &= (1 << args.page_shift) - 1;
                from += page * (rows_ == Rows::v ? args.v.batch : args.k.batch) * static_cast<int>(sizeof(E));
            }
            from += key / kTogether * step_;
            if (are_dense_)
                copy_whole(ring_[stage], from, kDenseStep);
            else if (are_whole_)
                copy_whole(ring_[stage], from, step_);
            else
                copy_some(args, ring_[stage], from);
            key_ += T::kPartKeys;
            if (--parts_ == 0) end_rows(args);
        }
        end_group_of_copies();
    }

    // V follows K, and the warp's next segment follows V.
    __device__ __forceinline__ void end_rows(const Args& args) {
        if (rows_ == Rows::tile) {
            if (segments_ > 0) begin_rows(args, next_, Rows::k);
            return;
        }
        const char* const from = from_;
        from_ = other_;
        other_ = from;
        key_ -= kSegmentKeys;
        if (rows_ == Rows::k)
            begin_rows(args, key_, Rows::v);
        else if (--segments_ > 0)
            begin_rows(args, key_ + distance_, Rows::k);
    }

    // All rows of a part, each of them whole.
    static __device__ __forceinline__ void copy_whole(E* to, const char* from, int64_t step) {
        constexpr int kSpan = kWarpSize * T::kPiece; // elements that all lanes copy of a row
#pragma unroll
        for (int y = 0; y < T::kPartKeys; y += kTogether, from += step)
#pragma unroll
            for (int i = 0; i < kOfRow; ++i)
                copy_async<16>(to + y / 8 * 8 * T::kDim + place_of(y % 8 + row(), i * kSpan + column()),
                               from + i * kSpan * sizeof(E));
    }

    // Keys and columns that do not exist are zeros.
    __device__ __forceinline__ void copy_some(const Args& args, E* to, const char* from) const {
        constexpr int kSpan = kWarpSize * T::kPiece;
#pragma unroll 1
        for (int y = row(); y < T::kPartKeys; y += kTogether, from += step_)
#pragma unroll
            for (int i = 0; i < kOfRow; ++i) {
                const bool there = i * kSpan + column() < args.dim && key_ + y < keys_;
                const void* const source = from + i * kSpan * sizeof(E);
                copy_async<16>(to + place_of(y, i * kSpan + column()), there ? source : args.k.at, there);
            }
    }

    Ring ring_;
    // The lane's piece of the first rows of what is copied next, K or V, and of the other; with pages, of page 0.
    const char* from_ = nullptr;
    const char* other_ = nullptr;
    const int32_t* table_ = nullptr; // with pages: those of the batch
    int keys_ = 0;                   // of the batch
    int next_ = 0;                   // the first key of this warp's segments
    int distance_ = 0;               // from the warp's segment to its next one
    int segments_ = 0;               // that are still to be copied
    int stage_ = 0;                  // of the part that is needed next
    Rows rows_ = Rows::k;            // what is copied next
    int key_ = 0;                    // its first key
    int parts_ = 0;                  // of this tile, or of this segment's K or V, that are still to be copied
    int64_t step_ = 0;               // bytes from the rows that are copied together to the next ones
    bool are_whole_ = false;         // all keys and columns of the tile or segment are there
    bool are_dense_ = false;         // and its rows have no gaps
    int pages_ = 0;                  // of the segment
    int next_pages_ = 0;             // of the one after it
};

} // namespace hw4::gpu::split
