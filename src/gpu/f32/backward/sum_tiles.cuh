// Sums: dV, dK and dQ of a round from its pairs, three matrix products.
//
// Idea      dV_j = sum_i P dO_i and dK_j = sum_i dS q_i read pairs in storage order, query after query, and dQ_i =
//           sum_j dS k_j reads along their rows, four keys at a time. There is no other work: these are the simplest
//           and fastest loops of backward.
// Work      A block has 128 rows of the result and 64 columns (32 if d is at most that), a thread 8 x 8 of them (or
//           8 x 4). Two stages of shared memory: a segment of 64 summed rows is multiplied while the next is copied.
// Order     A stage is a segment, one chain in registers from +0, then added to the group's sums, also in registers. A
//           group's sums go to memory: added to the totals, in the result's place, or, to have more blocks, stored
//           separately; join.cu adds those up.
#pragma once

#include "src/gpu/f32/backward/round_args.h"
#include "src/gpu/f32/forward/tile_copies.cuh"

namespace hw4::gpu {

constexpr int kStageRows = kSegmentRows; // summed at a time

template <int kColumnCount, bool kAllColumns>
struct SumTiling {
    static constexpr int kColumns = kColumnCount; // of a block
    static constexpr bool kWhole = kAllColumns;   // d is a multiple; otherwise columns from d on are zero
    static constexpr int kWarps = kSumRows / kWarpRows;
    static constexpr int kThreads = kWarps * kWarpSize;
    static constexpr int kBlocks = kColumns == 64 ? 2 : 3;
    static constexpr int kCT = kColumns / kAcross;   // a thread's columns
    static constexpr int kRound = 8 * 64 / kColumns; // steps between two parts of the next stage's copies
};

template <class T>
struct alignas(512) SumMemory { // rows of dQ's pairs begin at multiples of 256 bytes, even ones at multiples of 512
    // Each with a spare step: prefetching reads it, but no step uses it; the other buffer is being written.
    float w[2][(kStageRows + 1) * kSumRows]; // pairs, [query][key]: 64 queries, for dQ 128
    float m[2][kStageRows + 1][T::kColumns];
};

enum class SumOf { dv, dk, dq };

// The work of a block.
struct SumJob {
    SumOf of;
    uint32_t unit;    // of the round
    int first_row;    // of the result: keys, or rows of the round
    int first_column; // the same for columns
    int first_stage;  // of the summed rows; dQ's are taken from the last to the first
    int end_stage;
    int group; // if groups are summed separately
};

// Pairs swap places in shared memory, by exclusive or, so that neither lanes that copy nor lanes that read have
// bank conflicts: groups of four keys, or of four queries.
__device__ __forceinline__ int exchanged_of_keys(int down) { return (down & 1) << 2; }
__device__ __forceinline__ int exchanged_of_queries(int down, int second) {
    return (down & 1) << 2 | (down & 2) | second;
}

// Copies of a stage to shared memory: a thread's part of the pairs and of the other matrix, some in every round of the
// arithmetic; all at once they delay its loads. Each warp copies 32 queries and 64 keys, a line at a time.
template <class T, bool kOfQueries>
class StageCopies {
public:
    static constexpr int kParts = kStageRows / T::kRound;

    // `pairs`: the first stage's tile, for dK and dV the first of two.
    __device__ StageCopies(SumMemory<T>& memory, const float* pairs, bool second_tile, size_t row_of_tiles,
                           const float* matrix, const Rows& rows, int first_column)
        : rows_(rows), row_of_tiles_(row_of_tiles * sizeof(float)) {
        const Position at = position<PairedLanes>();
        const int team = kOfQueries ? at.warp : at.warp % 2;
        const int tile = kOfQueries ? 0 : at.warp / 2;
        // If there is no second tile, the first is used instead, and its results are dropped.
        pairs_ = reinterpret_cast<const char*>(pairs + (second_tile ? tile * kPairTile : 0) + team * kPairTeam +
                                               4 * at.lane);
        const int row = team * kWarpRows + 4 * at.down;
        const int four = tile * kStageRows / 4 +
                         (at.across ^ (kOfQueries ? exchanged_of_queries(at.down, 0) : exchanged_of_keys(at.down)));
        pair_to_ = address_of(&memory.w[0][row * kRowFloats + 4 * four]);
        const int thread = static_cast<int>(threadIdx.x);
        matrix_row_ = thread / kMatrixThreads;
        const int column = thread % kMatrixThreads * 4;
        column_ = first_column + column;
        matrix_ = reinterpret_cast<const char*>(matrix + column_);
        matrix_to_ = address_of(&memory.m[0][matrix_row_][column]);
    }

    // The following parts belong to this stage and go to this buffer.
    __device__ __forceinline__ void begin(int stage, int buffer) {
        if (kOfQueries)
            from_ = pairs_ + static_cast<size_t>(stage) * (kPairTile * sizeof(float));
        else
            from_ = pairs_ + stage / 2 * row_of_tiles_ + stage % 2 * (2 * kPairTeam * sizeof(float));
        to_ = pair_to_ + buffer * static_cast<int>(sizeof(SumMemory<T>::w[0]));
        row_ = stage * kStageRows + matrix_row_;
        matrix_place_ = matrix_to_ + buffer * static_cast<int>(sizeof(SumMemory<T>::m[0]));
    }

    // The next part: rows among the lanes' first four, after middle() among the other four.
    __device__ __forceinline__ void part() {
#pragma unroll
        for (int i = 0; i < kRowsPart; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                copy_in<16, true>(to_ + 4 * (i * kRowFloats + half * 4 * kAcross),
                                  from_ + (i * kPairRow + half * kPairLine) * sizeof(float), true);
        from_ += kRowsPart * kPairRow * sizeof(float);
        to_ += 4 * kRowFloats * kRowsPart;
        const char* line = rows_.of(matrix_, row_);
        if (T::kWhole) {
            copy_in<16, true>(matrix_place_, line, true);
        } else {
#pragma unroll
            for (int x = 0; x < 4; ++x) copy_in<4, true>(matrix_place_ + 4 * x, line + 4 * x, column_ + x < rows_.dim);
        }
        row_ += T::kRound;
        matrix_place_ += 4 * T::kColumns * T::kRound;
    }

    __device__ __forceinline__ void middle() {
        to_ += 4 * kRowFloats * (4 * kDown - 4);
        if (kOfQueries) to_ ^= exchanged_of_queries(0, 1) << 4;
    }

private:
    static constexpr int kRowFloats = kOfQueries ? kStageRows : kSumRows; // of pairs
    static constexpr int kMatrixThreads = T::kColumns / 4;
    static_assert(T::kThreads / kMatrixThreads == T::kRound, "a round's rows, one piece for each thread");
    static constexpr int kRowsPart = kRowsPerThread / kParts; // in a lane

    const Rows rows_;
    const size_t row_of_tiles_; // distance, in bytes
    const char* pairs_;         // this thread's first piece
    SharedAddress pair_to_;
    const char* matrix_; // this thread's first columns
    SharedAddress matrix_to_;
    int matrix_row_;
    int column_;
    // The next part:
    const char* from_ = nullptr;
    SharedAddress to_ = 0;
    int row_ = 0;
    SharedAddress matrix_place_ = 0;
};

// A step of dV and dK is a query: a are its pairs, b columns of its row.
template <class T>
struct KeySumSteps {
    static __device__ __forceinline__ constexpr int a(int u) { return 4 * u * kSumRows; }
    static __device__ __forceinline__ constexpr int b(int u) { return 4 * u * T::kColumns; }
    static __device__ __forceinline__ void load(Fragments<T::kCT>& f, int slot, const Factors& from, int u) {
        load_floats(f.b[slot], from.b + b(u), kSecondPlaces);
        const bool exchanged = u / 4 % 2 != 0; // the first four keys and the others: exchanged_of_keys()
        load_floats(f.a[slot], from.a + a(u) + (exchanged ? kSecondRows : 0), exchanged ? -kSecondRows : kSecondRows);
    }
    static __device__ __forceinline__ void multiply(float (&acc)[kRowsPerThread][T::kCT],
                                                    const float (&w)[kRowsPerThread], const float (&m)[T::kCT],
                                                    bool from_zero) {
        outer_by_rows(acc, w, m, from_zero);
    }
};

// A segment of dV or dK. copies.part() starts copies in each round.
template <class T, class Copies>
__device__ __forceinline__ void multiply_stage_of_keys(float (&o)[kRowsPerThread][T::kCT], const SumMemory<T>& memory,
                                                       int buffer, const Position& at, Copies& copies, bool more) {
    Factors factors{address_of(&memory.w[buffer][at.warp * kWarpRows + 4 * at.down]),
                    address_of(&memory.m[buffer][0][4 * at.across])};
    Fragments<T::kCT> f;
    KeySumSteps<T>::load(f, 0, factors, 0);
    clear(o);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
        chain<KeySumSteps<T>, T::kRound, true, false>(o, f, factors, factors.b + KeySumSteps<T>::b(kStageRows / 2),
                                                      [&] {
                                                          if (more) copies.part();
                                                      });
        copies.middle();
    }
}

// A segment of dQ: pairs of four keys are loaded at once, also a step ahead.
template <class T, class Copies>
__device__ __forceinline__ void multiply_stage_of_queries(float (&o)[kRowsPerThread][T::kCT],
                                                          const SumMemory<T>& memory, int buffer, const Position& at,
                                                          Copies& copies, bool more) {
    constexpr int kRowBytes = 4 * kStageRows;
    const SharedAddress rows = address_of(&memory.w[buffer][(at.warp * kWarpRows + 4 * at.down) * kStageRows]);
    // Rows begin at multiples of 256 bytes, so an exclusive or selects a piece of four keys.
    const SharedAddress first_rows = rows ^ (exchanged_of_queries(at.down, 0) << 4);
    const SharedAddress last_rows = (rows + 4 * kDown * kRowBytes) ^ (exchanged_of_queries(at.down, 1) << 4);
    SharedAddress m_at = address_of(&memory.m[buffer][0][4 * at.across]);
    float a[2][kRowsPerThread][4];
    float b[2][T::kCT];
    const auto load_row = [&](int slot, int i, unsigned piece_bytes) {
        const SharedAddress from = (i < 4 ? first_rows : last_rows) ^ piece_bytes;
        load_floats(a[slot][i], from + i % 4 * kRowBytes, 0);
    };
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) load_row(0, i, 0);
    load_floats(b[0], m_at, kSecondPlaces);
    clear(o);
    unsigned piece = 0; // the round's first, in bytes from the beginning of its row
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
#pragma unroll 1
        for (const unsigned end = piece + 4 * kStageRows / 2; piece != end; piece += 4 * T::kRound) {
            if (more) copies.part();
#pragma unroll
            for (int u = 0; u < T::kRound; ++u) {
                const int four = u / 4;
                load_floats(b[(u + 1) % 2], m_at + 4 * T::kColumns * (u + 1), kSecondPlaces);
                const unsigned next = piece + 16 * (four + 1);
                load_row((four + 1) % 2, 2 * (u % 4), next);
                load_row((four + 1) % 2, 2 * (u % 4) + 1, next);
                float w[kRowsPerThread];
#pragma unroll
                for (int i = 0; i < kRowsPerThread; ++i) w[i] = a[four % 2][i][u % 4];
                outer_by_rows(o, w, b[u % 2], false);
            }
            m_at += 4 * T::kColumns * T::kRound;
        }
        copies.middle();
    }
}

// The destination of a job's sums: row after row of the result, or of the group's place.
struct SumTarget {
    float* first; // its first row and column
    size_t row;
    int rows;    // existing rows, from the first on
    int columns; // the same for columns
    float scale; // of the result, where it is scaled
};

template <class T>
__device__ __forceinline__ SumTarget target_of(const RoundArgs& args, const SumJob& job) {
    const ForwardArgs& forward = args.all.forward;
    const uint32_t unit = args.unit(job.unit);
    const bool of_queries = job.of == SumOf::dq;
    const int rows = (of_queries ? args.rows : args.keys()) - job.first_row;
    float* parts = of_queries ? args.dq_parts : job.of == SumOf::dk ? args.dk_parts : args.dv_parts;
    if (parts != nullptr) {
        const int groups = of_queries ? args.key_groups() : args.row_groups();
        const int all_rows = of_queries ? args.rows : args.keys();
        const size_t row = (static_cast<size_t>(job.unit) * groups + job.group) * all_rows + job.first_row;
        return {parts + row * args.part_row + job.first_column, args.part_row, rows, T::kColumns, 0.0f};
    }
    const Heads<float>& heads = of_queries ? forward.out : job.of == SumOf::dk ? args.all.dk : args.all.dv;
    const uint32_t head = of_queries ? unit : forward.kv_unit(unit);
    const int first = job.first_row + (of_queries ? args.first_row : 0);
    return {heads.of(head) + static_cast<size_t>(first) * heads.row + job.first_column, heads.row, rows,
            forward.dim - job.first_column, args.all.scale};
}

// What to do with a group's sums.
struct GroupStep {
    bool apart;    // they are stored unchanged
    bool is_first; // the job's first group: nothing is added
    bool is_last;  // the total is the result
    bool scaled;   // the result is scaled
};

// Stores a group's sums. All totals are loaded at once: one after the other each would wait for memory.
template <class T>
__device__ __forceinline__ void store_group(const float (&group)[kRowsPerThread][T::kCT], const SumTarget& target,
                                            const Position& at, const GroupStep& step) {
    const auto each_four = [&](auto visit) {
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i) {
            const int row = at.warp * kWarpRows + row_of(at, i);
            float* const to = target.first + static_cast<size_t>(row) * target.row;
            if (row >= target.rows) continue;
#pragma unroll
            for (int j = 0; j < T::kCT; j += 4) visit(i, j, to + place_of(at, j), target.columns - place_of(at, j));
        }
    };
    float total[kRowsPerThread][T::kCT];
    clear(total);
    if (!step.apart && !step.is_first)
        each_four([&](int i, int j, const float* from, int columns) {
            if (T::kWhole) {
                const float4 four = *reinterpret_cast<const float4*>(from);
                total[i][j] = four.x;
                total[i][j + 1] = four.y;
                total[i][j + 2] = four.z;
                total[i][j + 3] = four.w;
            } else {
#pragma unroll
                for (int x = 0; x < 4; ++x)
                    if (x < columns) total[i][j + x] = from[x];
            }
        });
    add_rows(total, group); // stored separately, a -0 may become +0, as joining does too
    if (step.is_last && !step.apart)
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
            for (int j = 0; j < T::kCT; ++j)
                total[i][j] = step.scaled ? scaled_gradient(total[i][j], target.scale) : value_gradient(total[i][j]);
    each_four([&](int i, int j, float* to, int columns) {
        if (T::kWhole || step.apart) {
            *reinterpret_cast<float4*>(to) =
                make_float4(total[i][j], total[i][j + 1], total[i][j + 2], total[i][j + 3]);
        } else {
#pragma unroll
            for (int x = 0; x < 4; ++x)
                if (x < columns) to[x] = total[i][j + x];
        }
    });
}

// All stages of a job.
template <class T, bool kOfQueries>
__device__ __forceinline__ void sum_stages(const RoundArgs& args, const SumJob& job, SumMemory<T>& memory) {
    const ForwardArgs& forward = args.all.forward;
    const uint32_t unit = args.unit(job.unit);
    const float* const pairs = args.p + (job.of == SumOf::dv ? 0 : args.ds_from_p) + job.unit * args.pair_unit;
    const size_t row_of_tiles = static_cast<size_t>(args.key_tiles) * kPairTile;
    auto copies = [&] {
        if constexpr (kOfQueries) {
            return StageCopies<T, true>(memory, pairs + job.first_row / kSumRows * row_of_tiles, true, row_of_tiles,
                                        forward.k.of(forward.kv_unit(unit)),
                                        rows_of(forward.k, forward.keys, forward.dim), job.first_column);
        } else {
            const Heads<const float>& matrix = job.of == SumOf::dv ? args.all.dout : forward.q;
            const int tile = job.first_row / kStageRows;
            return StageCopies<T, false>(memory, pairs + static_cast<size_t>(tile) * kPairTile,
                                         tile + 1 < static_cast<int>(args.key_tiles), row_of_tiles,
                                         matrix.of(unit) + static_cast<size_t>(args.first_row) * matrix.row,
                                         rows_of(matrix, args.rows, forward.dim), job.first_column);
        }
    }();
    const Position at = position<PairedLanes>();
    const int stages = job.end_stage - job.first_stage;
    const auto stage_of = [&](int n) { return kOfQueries ? job.end_stage - 1 - n : job.first_stage + n; };
    if (stages > 0) {
        copies.begin(stage_of(0), 0);
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
#pragma unroll 1
            for (int n = 0; n < copies.kParts / 2; ++n) copies.part();
            copies.middle();
        }
    }
    float group[kRowsPerThread][T::kCT];
    clear(group);
    bool is_first = true; // the first group
#pragma unroll 1
    for (int n = 0; n < stages; ++n) {
        finish_copies();
        __syncthreads(); // the stage is complete; all threads are done with the previous one
        const bool more = n + 1 < stages;
        if (more) copies.begin(stage_of(n + 1), (n + 1) % 2);
        float o[kRowsPerThread][T::kCT];
        if constexpr (kOfQueries)
            multiply_stage_of_queries<T>(o, memory, n % 2, at, copies, more);
        else
            multiply_stage_of_keys<T>(o, memory, n % 2, at, copies, more);
        add_rows(group, o);
        constexpr int kGroupStages = kGroupRows / kStageRows;
        const int done = kOfQueries ? stage_of(n) : stage_of(n) + 1;
        if (!more || done % kGroupStages == 0) {
            const bool apart = args.dq_parts != nullptr;
            store_group<T>(group, target_of<T>(args, job), position<PairedLanes>(),
                           {apart, is_first, !more, job.of != SumOf::dv});
            clear(group);
            is_first = false;
        }
    }
    if (stages == 0) // no row sees these keys, or these rows see none
        store_group<T>(group, target_of<T>(args, job), at, {args.dq_parts != nullptr, true, true, job.of != SumOf::dv});
}

// First all blocks of dK and dV, then all of dQ: a multiprocessor that runs both at a time has too much code to
// fetch. Under a mask the first keys and the last queries, of all units, have the most work and come first.
struct SumGrid {
    uint32_t key_blocks; // in a unit
    uint32_t row_blocks;
    uint32_t column_blocks;
    uint32_t row_groups; // 1 unless groups are summed separately
    uint32_t key_groups;

    HW4_INLINE uint32_t key_jobs(uint32_t units) const { return 2 * key_blocks * units * column_blocks * row_groups; }
    HW4_INLINE uint32_t row_jobs(uint32_t units) const { return row_blocks * units * column_blocks * key_groups; }
};

template <class T>
HW4_INLINE SumGrid sum_grid(const RoundArgs& args) {
    const auto blocks = [](int whole, int part) { return static_cast<uint32_t>((whole + part - 1) / part); };
    const bool apart = args.dq_parts != nullptr;
    return {blocks(args.keys(), kSumRows), blocks(args.rows, kSumRows), blocks(args.all.forward.dim, T::kColumns),
            apart ? static_cast<uint32_t>(args.row_groups()) : 1, apart ? static_cast<uint32_t>(args.key_groups()) : 1};
}

template <class T>
__device__ __forceinline__ SumJob sum_job(const RoundArgs& args, uint32_t block) {
    const SumGrid grid = sum_grid<T>(args);
    const auto draw = [&](uint32_t choices) { // the next digit of the block's number
        const uint32_t digit = block % choices;
        block /= choices;
        return static_cast<int>(digit);
    };
    SumJob job{};
    const uint32_t key_jobs = grid.key_jobs(args.units);
    const bool of_queries = block >= key_jobs;
    if (of_queries) block -= key_jobs;
    job.of = of_queries ? SumOf::dq : draw(2) == 0 ? SumOf::dv : SumOf::dk;
    job.first_column = draw(grid.column_blocks) * T::kColumns;
    job.group = draw(of_queries ? grid.key_groups : grid.row_groups);
    job.unit = static_cast<uint32_t>(draw(args.units));
    if (of_queries) {
        job.first_row = static_cast<int>(grid.row_blocks - 1 - block) * kSumRows;
        job.end_stage = (args.seen_by_rows(job.first_row, kSumRows) + kStageRows - 1) / kStageRows;
    } else {
        job.first_row = static_cast<int>(block) * kSumRows;
        job.first_stage = args.first_seeing(job.first_row) / kStageRows;
        job.end_stage = (args.rows + kStageRows - 1) / kStageRows;
    }
    if (args.dq_parts != nullptr) {
        constexpr int kGroupStages = kGroupRows / kStageRows;
        job.first_stage = max(job.first_stage, job.group * kGroupStages);
        job.end_stage = min(job.end_stage, (job.group + 1) * kGroupStages);
    }
    return job;
}

template <class T>
__global__ __launch_bounds__(T::kThreads, T::kBlocks) void sum_kernel(const __grid_constant__ RoundArgs args) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(512) char sum_memory[];
    SumMemory<T>& shared = *reinterpret_cast<SumMemory<T>*>(sum_memory);
    const SumJob job = sum_job<T>(args, args.first_sum + blockIdx.x);
    if (args.dq_parts != nullptr && job.first_stage >= job.end_stage) return; // no row sees a key in this group
    if (job.of == SumOf::dq)
        sum_stages<T, true>(args, job, shared);
    else
        sum_stages<T, false>(args, job, shared);
#else
    __trap(); // the table keeps GPUs and builds below 8.0 from it
#endif
}

} // namespace hw4::gpu
