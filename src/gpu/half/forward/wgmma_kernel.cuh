// Attention in half precision on Hopper's tensor cores.
//
// A block has groups of 128 threads with 64 query rows each, and one warp that starts copies of boxes of Q, K and V to
// rings in shared memory. Persistent blocks take job after job; the next job's Q, K and V are copied while one ends.
//
// Barriers: `filled` of a stage ends its round when the copy engine has written all its bytes, `released` when every
// warp of every group has seen the end of the products that read it. The job's number is stored with Q, under its
// barriers. All groups of a block begin the same products and go through the same tiles, even if their own rows see
// fewer tiles: a group only waits for the tiles it does not need and releases them (skip()). So no group can wait for a
// stage or a turn that does not come.
#pragma once

#include <cstddef>

#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/half/forward/output_rows.cuh"
#include "src/gpu/half/forward/wgmma_block.cuh"

namespace hw4::gpu::half_forward {

constexpr int kGroupRows = 64;
constexpr int kTileKeys = 128;

// What a kernel overlaps; each step includes the previous ones: only asynchronous copies; scores of the next tile are
// multiplied while this one's become weights; groups take turns in starting products, so that one makes weights while
// the tensor cores work for another.
enum class Overlap { copies, scores, turns };

template <int kDim_, int kGroups_, int kStages_, Overlap kOverlap_ = Overlap::turns>
struct Variant : Panels<kDim_, kGroups_ * kGroupRows, kTileKeys> {
    static constexpr int kDim = kDim_; // smaller d have columns of zeros
    static constexpr int kGroups = kGroups_;
    static constexpr int kStages = kStages_; // of keys, and of values
    static constexpr Overlap kOverlap = kOverlap_;
    static constexpr int kKeys = kTileKeys;
    static constexpr int kRows = kGroups * kGroupRows;
    static constexpr int kThreads = (kGroups + 1) * kGroupThreads;
    static constexpr int kWarps = kGroups * kGroupThreads / kWarpSize; // warps that release stages
    // Registers of a thread, after the copying threads gave theirs back: at most 64 K in all.
    static constexpr int kCopierRegisters = kGroups == 3 ? 32 : kGroups == 2 ? 24 : 56;
    static constexpr int kGroupRegisters = kGroups == 3 ? 160 : kGroups == 2 ? 240 : 256;
    // The next job's queries are copied while this one's are used, if there is space.
    static constexpr int kQueryStages = 2 * (Variant::kQueryBytes + kStages * Variant::kKeyBytes) < kBlockBytes ? 2 : 1;
};

template <class T>
struct BlockMemory {
    alignas(1024) unsigned char queries[T::kQueryStages][T::kQueryBytes];
    unsigned char keys[T::kStages][T::kKeyBytes];
    unsigned char values[T::kStages][T::kKeyBytes];
    uint64_t queries_filled[T::kQueryStages];
    uint64_t queries_released[T::kQueryStages];
    uint64_t keys_filled[T::kStages];
    uint64_t keys_released[T::kStages];
    uint64_t values_filled[T::kStages];
    uint64_t values_released[T::kStages];
    uint32_t job[T::kQueryStages]; // after the last job, a number without a job

    __device__ void init_barriers() {
        for (int i = 0; i < T::kQueryStages; ++i) init_stage(queries_filled[i], queries_released[i], T::kWarps);
        for (int i = 0; i < T::kStages; ++i) {
            init_stage(keys_filled[i], keys_released[i], T::kWarps);
            init_stage(values_filled[i], values_released[i], T::kWarps);
        }
    }
};

// The addresses of things in a block's shared memory.
template <class T>
struct Addresses {
    using Memory = BlockMemory<T>;
    SharedAddress memory;

    __device__ __forceinline__ SharedAddress queries(unsigned stage) const {
        return memory + offset<offsetof(Memory, queries), T::kQueryBytes>(stage);
    }
    __device__ __forceinline__ SharedAddress keys(unsigned stage) const {
        return memory + offset<offsetof(Memory, keys), T::kKeyBytes>(stage);
    }
    __device__ __forceinline__ SharedAddress values(unsigned stage) const {
        return memory + offset<offsetof(Memory, values), T::kKeyBytes>(stage);
    }
    __device__ __forceinline__ SharedAddress queries_filled(unsigned stage) const {
        return memory + offset<offsetof(Memory, queries_filled), 8>(stage);
    }
    __device__ __forceinline__ SharedAddress queries_released(unsigned stage) const {
        return memory + offset<offsetof(Memory, queries_released), 8>(stage);
    }
    __device__ __forceinline__ SharedAddress keys_filled(unsigned stage) const {
        return memory + offset<offsetof(Memory, keys_filled), 8>(stage);
    }
    __device__ __forceinline__ SharedAddress keys_released(unsigned stage) const {
        return memory + offset<offsetof(Memory, keys_released), 8>(stage);
    }
    __device__ __forceinline__ SharedAddress values_filled(unsigned stage) const {
        return memory + offset<offsetof(Memory, values_filled), 8>(stage);
    }
    __device__ __forceinline__ SharedAddress values_released(unsigned stage) const {
        return memory + offset<offsetof(Memory, values_released), 8>(stage);
    }

private:
    template <size_t kFirst, int kBytes>
    static __device__ __forceinline__ uint32_t offset(unsigned stage) {
        return static_cast<uint32_t>(kFirst) + stage * kBytes;
    }
};

// The jobs of a block, one after the other. With a counter a block takes the next job that no block has taken. Without
// a counter the numbers go back and forth over the blocks: under a mask the block with the longest job of a round has
// the shortest of the next.
struct JobNumbers {
    uint32_t jobs;
    unsigned* counter;
    uint32_t now = blockIdx.x;

    __device__ uint32_t next() const {
        if (counter == nullptr) return 2 * (now / gridDim.x + 1) * gridDim.x - 1 - now;
        return gridDim.x + atomicAdd(counter, 1u);
    }
};

// One thread starts all copies, in the order in which they are waited for.
template <class T>
class Copier {
public:
    __device__ Copier(BlockMemory<T>& memory, const CUtensorMap& q, const CUtensorMap& k, const CUtensorMap& v,
                      const KernelArgs& args)
        : memory_(memory), at_{address_of(&memory)}, q_(q), k_(k), v_(v), args_(args) {}

    __device__ void run() {
        JobNumbers numbers{args_.work.jobs, args_.counter};
        while (numbers.now < numbers.jobs) numbers.now = copy_job(numbers);
        wait_for_phase(at_.queries_released(q_turn_.stage), static_cast<int>(q_turn_.phase ^ 1));
        memory_.job[q_turn_.stage] = numbers.jobs;
        arrive(at_.queries_filled(q_turn_.stage));
    }

private:
    BlockMemory<T>& memory_;
    Addresses<T> at_;
    const CUtensorMap& q_;
    const CUtensorMap& k_;
    const CUtensorMap& v_;
    const KernelArgs& args_;
    RingPosition q_turn_;
    RingPosition k_turn_;
    RingPosition v_turn_;

    // Returns the number of the next job. It is asked for late, so that a block with a long job does not take two, but
    // before the last tile, since the answer takes time.
    __device__ uint32_t copy_job(const JobNumbers& numbers) {
        const Job job = args_.work.job(numbers.now);
        const int tiles = args_.view.template tiles<T::kKeys>(job.first, job.first + T::kRows);
        const int head = static_cast<int>(job.head);
        const int kv_head = static_cast<int>(job.head / args_.group);
        const int batch = static_cast<int>(job.batch);
        copy_queries(numbers.now, tiles > 0, job.first, head, batch);
        for (int tile = tiles - 1; tile > 0; --tile) copy_keys(tile, tiles, kv_head, batch);
        const uint32_t next = numbers.next();
        if (tiles > 0) {
            copy_keys(0, tiles, kv_head, batch);
            copy_values(0, kv_head, batch);
        }
        return next;
    }

    // The keys of a tile, and the values of the tile before it.
    __device__ __forceinline__ void copy_keys(int tile, int tiles, int head, int batch) {
        copy_tile(k_, k_turn_, at_.keys(k_turn_.stage), at_.keys_filled(k_turn_.stage),
                  at_.keys_released(k_turn_.stage), tile, head, batch);
        if (tile < tiles - 1) copy_values(tile + 1, head, batch);
    }

    // A barrier that was not used yet counts as one that has just ended its round.
    __device__ void copy_queries(uint32_t number, bool needed, int first, int head, int batch) {
        const SharedAddress filled = at_.queries_filled(q_turn_.stage);
        wait_for_phase(at_.queries_released(q_turn_.stage), static_cast<int>(q_turn_.phase ^ 1));
        memory_.job[q_turn_.stage] = number;
        if (needed) {
            expect_bytes(filled, T::kQueryBytes);
            copy_panels<T::kPanels, T::kQueryPanel>(at_.queries(q_turn_.stage), q_, first, head, batch, filled);
        } else {
            arrive(filled);
        }
        q_turn_ = q_turn_.plus<T::kQueryStages>(1);
    }

    __device__ void copy_values(int tile, int head, int batch) {
        copy_tile(v_, v_turn_, at_.values(v_turn_.stage), at_.values_filled(v_turn_.stage),
                  at_.values_released(v_turn_.stage), tile, head, batch);
    }

    __device__ __forceinline__ void copy_tile(const CUtensorMap& map, RingPosition& turn, SharedAddress to,
                                              SharedAddress filled, SharedAddress released, int tile, int head,
                                              int batch) {
        wait_for_phase(released, static_cast<int>(turn.phase ^ 1));
        expect_bytes(filled, T::kKeyBytes);
        copy_panels<T::kPanels, T::kKeyPanel>(to, map, tile * T::kKeys, head, batch, filled);
        turn = turn.plus<T::kStages>(1);
    }
};

// The work of a group on its rows.
template <class Number, class T>
class Group {
public:
    __device__ Group(const BlockMemory<T>& memory, const KernelArgs& args, int group)
        : memory_(memory), args_(args), group_(group), at_{uniform(address_of(&memory))},
          q_(RowDescriptor::at(memory.queries[0]).plus(static_cast<uint32_t>(group * kGroupRows * T::kRowBytes))),
          k_(RowDescriptor::at(memory.keys[0])), v_(ColumnDescriptor::at(memory.values[0])) {}

    __device__ void run() {
        if (kTurns && group_ == T::kGroups - 1) pass_turn(); // the first group has the first turn
        for (;; q_turn_ = q_turn_.plus<T::kQueryStages>(1)) {
            wait_for_phase(at_.queries_filled(q_turn_.stage), static_cast<int>(q_turn_.phase));
            const uint32_t number = uniform(memory_.job[q_turn_.stage]);
            if (number >= args_.work.jobs) return;
            attend(args_.work.job(number));
        }
    }

private:
    static constexpr bool kTurns = T::kOverlap == Overlap::turns;
    static constexpr int kSteps = T::kKeys / 16;                          // in the second product
    using RowDescriptor = PlaneDescriptor<T::kRowBytes>;                  // the product runs along rows
    using ColumnDescriptor = PlaneDescriptor<T::kRowBytes, T::kKeyPanel>; // down the columns

    const BlockMemory<T>& memory_;
    const KernelArgs& args_;
    const int group_;
    Addresses<T> at_;
    RowDescriptor q_;
    RowDescriptor k_;
    ColumnDescriptor v_;
    RingPosition q_turn_;
    RingPosition k_turn_;
    RingPosition v_turn_;
    float s_[T::kKeys / 2]; // scores, then weights
    float o_[T::kDim / 2];
    uint32_t p_[kSteps][4];

    __device__ __forceinline__ void attend(const Job& job) {
        const int first = job.first + group_ * kGroupRows;
        const int tiles = args_.view.template tiles<T::kKeys>(job.first, job.first + T::kRows);
        const int own = args_.view.template tiles<T::kKeys>(first, first + kGroupRows);
        const int whole = args_.view.of(first) / T::kKeys; // tiles that all rows see whole
        const int row = first + static_cast<int>(threadIdx.x % kGroupThreads / kWarpSize * 16 + threadIdx.x % 32 / 4);
        const int column = static_cast<int>(2 * (threadIdx.x % 4));
        const int seen[2] = {args_.view.of(row) - column, args_.view.of(row + 8) - column};
        const auto hide = [&](int tile) {
            if (tile >= whole) hide_unseen(s_, seen[0] - tile * T::kKeys, seen[1] - tile * T::kKeys);
        };

        RunningRows rows;
#pragma unroll
        for (int i = 0; i < T::kDim / 2; ++i) o_[i] = 0;
        skip(tiles, own);
        if (own > 0) {
            if constexpr (T::kOverlap == Overlap::copies)
                attend_in_turn(rows, own, hide);
            else
                attend_ahead(rows, own, hide);
        } else {
            arrive_by_warp(at_.queries_released(q_turn_.stage));
        }
        store_job<Number, true>(args_, job, row, rows, o_);
    }

    template <class Hide>
    __device__ __forceinline__ void attend_in_turn(RunningRows& rows, int tiles, const Hide& hide) {
        float factor[2];
        for (int tile = tiles - 1; tile >= 0; --tile) {
            wait_for_keys();
            begin_scores();
            wait_for_products<0>();
            pin(s_);
            release_keys();
            hide(tile);
            if (__any_sync(kAllLanes, rows.weigh(s_, args_.log2_scale, factor))) multiply_rows(o_, factor);
            pack_weights<Number>(p_, s_);
            wait_for_values();
            begin_values();
            end_values();
        }
        arrive_by_warp(at_.queries_released(q_turn_.stage));
    }

    // Multiplies a tile's scores before the values of the previous tile, and turns them into weights during the latter.
    // The wait for the next keys keeps the compiler from moving the wait for the values up among the weights.
    template <class Hide>
    __device__ __forceinline__ void attend_ahead(RunningRows& rows, int tiles, const Hide& hide) {
        float factor[2];
        wait_for_keys();
        begin_scores();
        wait_for_products<0>();
        pin(s_);
        release_keys();
        hide(tiles - 1);
        rows.weigh(s_, args_.log2_scale, factor); // there are no values yet to multiply by the factor
        pack_weights<Number>(p_, s_);
        if (tiles > 1) wait_for_keys();
        for (int tile = tiles - 2; tile >= 0; --tile) {
            take_turn();
            begin_scores();
            wait_for_values();
            begin_values();
            pass_turn();
            wait_for_products<1>();
            pin(s_);
            release_keys();
            hide(tile);
            // Sums are never negative, which the compiler does not know: so it adds them up before the vote, among the
            // powers, and not after the waits.
            const bool changed = rows.weigh(s_, args_.log2_scale, factor) || __fadd_rn(rows.sum[0], rows.sum[1]) < 0;
            const bool raised = __any_sync(kAllLanes, changed);
            if (tile > 0) wait_for_keys();
            end_values();
            if (raised) multiply_rows(o_, factor);
            pack_weights<Number>(p_, s_);
        }
        arrive_by_warp(at_.queries_released(q_turn_.stage));
        wait_for_values();
        begin_values();
        end_values();
    }

    // Skips tiles of the block that this group's rows see nothing of, with their turns; a group's first tile has no
    // turn.
    __device__ __forceinline__ void skip(int tiles, int own) {
#pragma unroll 1
        for (int tile = tiles - 1; tile >= own; --tile) {
            wait_for_keys();
            release_keys();
            if (tile > 0) {
                take_turn();
                pass_turn();
            }
            wait_for_values();
            release_values();
        }
    }

    __device__ __forceinline__ void wait_for_keys() const {
        wait_for_phase(at_.keys_filled(k_turn_.stage), static_cast<int>(k_turn_.phase));
    }
    __device__ __forceinline__ void wait_for_values() const {
        wait_for_phase(at_.values_filled(v_turn_.stage), static_cast<int>(v_turn_.phase));
    }

    __device__ __forceinline__ void begin_scores() {
        using Scores = Product<Number, T::kKeys>;
        const RowDescriptor q = q_.plus(q_turn_.stage * T::kQueryBytes);
        const RowDescriptor k = k_.plus(k_turn_.stage * T::kKeyBytes);
        begin_products();
        Scores::begin(s_, q, k);
#pragma unroll
        for (uint32_t step = 1; step < T::kDim / 16; ++step)
            Scores::add(s_, q.plus(step / 4 * T::kQueryPanel + step % 4 * 32),
                        k.plus(step / 4 * T::kKeyPanel + step % 4 * 32));
        commit_products();
    }

    __device__ __forceinline__ void begin_values() {
        const ColumnDescriptor v = v_.plus(v_turn_.stage * T::kKeyBytes);
        pin_weights();
        pin(o_);
        begin_products();
#pragma unroll
        for (uint32_t step = 0; step < kSteps; ++step)
            Product<Number, T::kDim>::add(o_, p_[step], v.plus(step * 16 * T::kRowBytes));
        commit_products();
    }

    __device__ __forceinline__ void end_values() {
        wait_for_products<0>();
        pin(o_);
        pin_weights(); // the products read them until now
        release_values();
    }

    __device__ __forceinline__ void pin_weights() {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) pin(p_[step]);
    }

    __device__ __forceinline__ void release_keys() {
        arrive_by_warp(at_.keys_released(k_turn_.stage));
        k_turn_ = k_turn_.plus<T::kStages>(1);
    }
    __device__ __forceinline__ void release_values() {
        arrive_by_warp(at_.values_released(v_turn_.stage));
        v_turn_ = v_turn_.plus<T::kStages>(1);
    }

    // A group's turn comes when the group before it has started its products.
    __device__ __forceinline__ void take_turn() const {
        if constexpr (kTurns) wait_for_other_group(1 + group_);
    }
    __device__ __forceinline__ void pass_turn() const {
        if constexpr (kTurns) pass_for_other_group(1 + (group_ == T::kGroups - 1 ? 0 : group_ + 1));
    }
};

template <class Number, class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    half_kernel(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                const __grid_constant__ CUtensorMap v, const __grid_constant__ KernelArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    auto& memory = memory_of_block<BlockMemory<T>>();
    if (threadIdx.x == 0) prepare_block(memory, q, k, v);
    __syncthreads();
    const int group = begin_group<T>();
    if (group == T::kGroups) {
        if (threadIdx.x == T::kGroups * kGroupThreads) Copier<T>(memory, q, k, v, args).run();
    } else {
        Group<Number, T>(memory, args, group).run();
    }
#else
    __trap();
#endif
}

// At most one block per multiprocessor.
template <class Number, class T>
void launch_half_kernel(const Args& args, int64_t most_blocks, cudaStream_t stream) {
    KernelArgs kernel_args(args, T::kRows, kGroupRows);
    constexpr int64_t kFewRounds = 4; // a counter, which has to be cleared, gains nothing there
    if ((kernel_args.work.jobs - 1) / kFewRounds < most_blocks) kernel_args.counter = nullptr;
    if (kernel_args.counter != nullptr) HW4_CUDA(cudaMemsetAsync(args.counter, 0, sizeof(*args.counter), stream));
    launch_blocks<T, BlockMemory<T>>("launch of half_kernel", half_kernel<Number, T>, kernel_args.work.jobs,
                                     most_blocks, stream, query_map(args, args.q, T::kRows),
                                     key_map(args, args.k, T::kKeys), key_map(args, args.v, T::kKeys), kernel_args);
}

} // namespace hw4::gpu::half_forward
