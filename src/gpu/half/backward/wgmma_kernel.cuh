// Gradients in half precision on Hopper's tensor cores: a block of keys stays, tiles of queries pass by.
//
// A block has two groups of 128 threads with 64 keys each, a warp that has boxes copied to shared memory, and two that
// add dQ to its sums in global memory. With keys as rows of the pairs, P and dS are the left operands of dV and dK
// straight from registers; for dQ, whose rows are queries, dS goes through shared memory, where both groups' keys come
// together.
//
// A tile:  S = K Q^T and dP = V dO^T; P from S while dP is multiplied; dV += P dO; dS from P and dP; both groups' dS in
//          shared memory; dQ = dS K, dK += dS Q, and with kAhead S of the next tile; dQ to shared memory, from where it
//          is added to its sums in the background.
//
// Sums of dQ are added to in turns: a counter for each tile and group says how many blocks have been there, and a block
// waits until those with later keys have. Jobs are begun in that order too (work.h), so nobody waits for a job that is
// not at work. The first stores where others add.
//
// Barriers: `filled` of a stage ends its round when the copy engine has written all its bytes, `released` when every
// thread of both groups has read what it reads itself and seen the products end that read the rest.
#pragma once

#include <cstddef>

#include "src/gpu/common/barriers.cuh"
#include "src/gpu/common/ring_position.cuh"
#include "src/gpu/half/backward/pairs.cuh"
#include "src/gpu/half/backward/wgmma_sizes.h"
#include "src/gpu/half/backward/work.h"
#include "src/gpu/half/forward/output_rows.cuh"
#include "src/gpu/half/forward/products.cuh"
#include "src/gpu/half/forward/tensor_map.h"

namespace hw4::gpu::half_backward {

using half_forward::Bf16;
using half_forward::Fp16;
using half_forward::kBoxColumns;
using half_forward::Product;

constexpr int kGroupThreads = 128;
constexpr int kGroupKeys = 64;
constexpr int kBlockBytes = 227 * 1024; // of shared memory, at most

// What becomes of dQ: nothing, another kernel computes it; added to sums in memory, in turns.
enum class Queries { none, in_turns };

template <class Sizes_, Queries kDq_ = Queries::in_turns, bool kAhead_ = (Sizes_::kDim > 64)>
struct Variant : Sizes_ {
    using Sizes = Sizes_;
    static constexpr Queries kDq = kDq_;
    static constexpr bool kHasDq = kDq != Queries::none;
    static constexpr bool kAhead = kAhead_; // scores of the next tile before dQ and dK of this one
    static constexpr int kStages = 2;       // of queries, of dO and of dQ
    static constexpr int kThreads = (Sizes::kGroups + 1) * kGroupThreads;
    static constexpr int kReaders = Sizes::kGroups * kGroupThreads; // that release stages
    static constexpr int kCopierRegisters = 24;
    static constexpr int kGroupRegisters = 240;
    // Panels of 64 columns follow one another, rows of 128 bytes each.
    static constexpr int kPanels = Sizes::kDim / kBoxColumns;
    static constexpr int kRowBytes = 2 * kBoxColumns;
    static constexpr int kQueryPanel = Sizes::kQueries * kRowBytes;
    static constexpr int kKeyPanel = Sizes::kKeys * kRowBytes;
    static constexpr int kQueryBytes = kPanels * kQueryPanel;
    static constexpr int kKeyBytes = kPanels * kKeyPanel;
    static constexpr int kFactBytes = Sizes::kQueries * 4;
    static constexpr int kPairPanel = Sizes::kQueries * kRowBytes; // of dS: 64 keys, a group's
    static constexpr int kSumBytes = Sizes::kChunk * 4;            // of dQ, a group's
};

template <class T>
struct BlockMemory {
    alignas(1024) unsigned char keys[T::kKeyBytes];
    unsigned char values[T::kKeyBytes];
    unsigned char queries[T::kStages][T::kQueryBytes];
    unsigned char douts[T::kStages][T::kQueryBytes];
    unsigned char pairs[T::kHasDq ? T::kGroups * T::kPairPanel : 1024];
    unsigned char sums[T::kHasDq ? T::kStages : 1][T::kGroups][T::kHasDq ? T::kSumBytes : 512];
    float levels[T::kStages][T::kQueries];
    float origins[T::kStages][T::kQueries];
    float products[T::kStages][T::kQueries];
    uint64_t keys_filled;
    uint64_t keys_released;
    uint64_t queries_filled[T::kStages];
    uint64_t queries_released[T::kStages];
    uint64_t douts_filled[T::kStages];
    uint64_t douts_released[T::kStages];
    uint64_t sums_filled[T::kStages][T::kGroups];
    uint64_t sums_released[T::kStages][T::kGroups];
    uint32_t job; // after the last, a number that is no job's
    uint32_t far; // some rows have origins

    // By one thread, before all others begin.
    __device__ void init() {
        init_barrier(address_of(&keys_filled), 1);
        init_barrier(address_of(&keys_released), T::kReaders + (T::kHasDq ? T::kGroups : 0));
        for (int i = 0; i < T::kStages; ++i) {
            init_barrier(address_of(&queries_filled[i]), 1);
            init_barrier(address_of(&queries_released[i]), T::kReaders);
            init_barrier(address_of(&douts_filled[i]), 1);
            init_barrier(address_of(&douts_released[i]), T::kReaders);
        }
        for (int i = 0; i < T::kStages; ++i)
            for (int group = 0; group < T::kGroups; ++group) {
                init_barrier(address_of(&sums_filled[i][group]), kGroupThreads / kWarpSize);
                init_barrier(address_of(&sums_released[i][group]), 1);
            }
        publish_barriers();
        publish_to_async();
    }
};

// Where things are in a block's shared memory.
template <class T>
struct Addresses {
    using Memory = BlockMemory<T>;
    SharedAddress memory;

#define HW4_PLACE(name, bytes)                                                                                         \
    __device__ __forceinline__ SharedAddress name(unsigned stage = 0) const {                                          \
        return memory + static_cast<uint32_t>(offsetof(Memory, name)) + stage * static_cast<uint32_t>(bytes);          \
    }
    HW4_PLACE(keys, 0)
    HW4_PLACE(values, 0)
    HW4_PLACE(queries, T::kQueryBytes)
    HW4_PLACE(douts, T::kQueryBytes)
    HW4_PLACE(pairs, T::kPairPanel)
    HW4_PLACE(levels, T::kFactBytes)
    HW4_PLACE(origins, T::kFactBytes)
    HW4_PLACE(products, T::kFactBytes)
    HW4_PLACE(keys_filled, 0)
    HW4_PLACE(keys_released, 0)
    HW4_PLACE(queries_filled, 8)
    HW4_PLACE(queries_released, 8)
    HW4_PLACE(douts_filled, 8)
    HW4_PLACE(douts_released, 8)
    HW4_PLACE(sums, T::kSumBytes) // stage * groups + group
    HW4_PLACE(sums_filled, 8)     // likewise
    HW4_PLACE(sums_released, 8)   // likewise
#undef HW4_PLACE
};

// The tiles that a job goes through, the heads of its group one after the other: who copies, who computes and who adds
// up walk them in step.
template <class T>
struct Walk {
    KeyJob job;
    QueryTiles tiles;
    uint32_t group;
    uint32_t head; // of queries
    int tile;

    __device__ Walk(const KernelArgs& args, uint32_t number)
        : job(args.work.job(number)), tiles(QueryTiles::of<T::kQueries>(args.view, job.block * T::kKeys)),
          group(args.group), head(job.kv_head * group), tile(tiles.first) {}

    __device__ __forceinline__ int count() const { return tiles.count() * static_cast<int>(group); }
    __device__ __forceinline__ void next() {
        if (++tile < tiles.end) return;
        tile = tiles.first;
        ++head;
    }
    __device__ __forceinline__ uint32_t unit(const KernelArgs& args) const { return job.batch * args.heads + head; }
};

// What one thread does: it has everything copied, in the order in which it is waited for.
template <class T>
class Copier {
public:
    __device__ Copier(BlockMemory<T>& memory, const CUtensorMap& q, const CUtensorMap& k, const CUtensorMap& v,
                      const CUtensorMap& dout, const KernelArgs& args)
        : memory_(memory), at_{address_of(&memory)}, q_(q), k_(k), v_(v), dout_(dout), args_(args) {}

    __device__ void run() {
        unsigned phase = 1;
        for (;; phase ^= 1) {
            const uint32_t number = atomicAdd(args_.counters + kKeyJobs, 1u);
            wait_for_phase(at_.keys_released(), static_cast<int>(phase));
            memory_.job = number;
            if (number >= args_.work.jobs) {
                arrive(at_.keys_filled());
                return;
            }
            copy_job(Walk<T>(args_, number));
        }
    }

private:
    BlockMemory<T>& memory_;
    Addresses<T> at_;
    const CUtensorMap& q_;
    const CUtensorMap& k_;
    const CUtensorMap& v_;
    const CUtensorMap& dout_;
    const KernelArgs& args_;
    RingPosition turn_;

    __device__ __forceinline__ void copy_job(Walk<T> walk) {
        const int batch = static_cast<int>(walk.job.batch);
        const SharedAddress filled = at_.keys_filled();
        expect_bytes(filled, 2 * T::kKeyBytes);
        for (int panel = 0; panel < T::kPanels; ++panel) {
            copy_box(at_.keys() + panel * T::kKeyPanel, &k_, panel * kBoxColumns, walk.job.block * T::kKeys,
                     static_cast<int>(walk.job.kv_head), batch, filled);
            copy_box(at_.values() + panel * T::kKeyPanel, &v_, panel * kBoxColumns, walk.job.block * T::kKeys,
                     static_cast<int>(walk.job.kv_head), batch, filled);
        }
#pragma unroll 1
        for (int left = walk.count(); left > 0; --left) {
            const int64_t row = int64_t{walk.unit(args_)} * args_.padded + walk.tile * T::kQueries;
            const SharedAddress queries = at_.queries_filled(turn_.stage);
            copy_tile(q_, at_.queries(turn_.stage), queries, at_.queries_released(turn_.stage),
                      T::kQueryBytes + 2 * T::kFactBytes, walk);
            copy_bytes(at_.levels(turn_.stage), args_.levels + row, T::kFactBytes, queries);
            copy_bytes(at_.origins(turn_.stage), args_.origins + row, T::kFactBytes, queries);
            const SharedAddress douts = at_.douts_filled(turn_.stage);
            copy_tile(dout_, at_.douts(turn_.stage), douts, at_.douts_released(turn_.stage),
                      T::kQueryBytes + T::kFactBytes, walk);
            copy_bytes(at_.products(turn_.stage), args_.products + row, T::kFactBytes, douts);
            turn_ = turn_.plus<T::kStages>(1);
            walk.next();
        }
    }

    // The first of `bytes` that arrive there. A barrier that nobody has used yet passes for one that has just ended its
    // round.
    __device__ __forceinline__ void copy_tile(const CUtensorMap& map, SharedAddress to, SharedAddress filled,
                                              SharedAddress released, int bytes, const Walk<T>& walk) {
        wait_for_phase(released, static_cast<int>(turn_.phase ^ 1));
        expect_bytes(filled, bytes);
        for (int panel = 0; panel < T::kPanels; ++panel)
            copy_box(to + panel * T::kQueryPanel, &map, panel * kBoxColumns, walk.tile * T::kQueries,
                     static_cast<int>(walk.head), static_cast<int>(walk.job.batch), filled);
    }
};

// From shared to global memory by the copy engine; a thread waits for what it began.
__device__ __forceinline__ void store_bytes(float* to, SharedAddress from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void add_floats(float* to, SharedAddress from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void finish_stores() {
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}
// What the copy engine did and what threads do are in order, whichever memory.
__device__ __forceinline__ void join_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

__device__ __forceinline__ unsigned read_turn(const unsigned* turn) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(turn) : "memory");
    return value;
}
__device__ __forceinline__ void pass_turn(unsigned* turn, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(value) : "memory");
}

// What one thread does for each group: its dQ is added to the sums in global memory.
template <class T>
class Adder {
public:
    __device__ Adder(BlockMemory<T>& memory, const KernelArgs& args, unsigned group)
        : memory_(memory), at_{address_of(&memory)}, args_(args), group_(group) {}

    __device__ void run() {
        for (unsigned phase = 0;; phase ^= 1) {
            wait_for_phase(at_.keys_filled(), static_cast<int>(phase));
            const uint32_t number = *const_cast<volatile uint32_t*>(&memory_.job);
            if (number >= args_.work.jobs) return;
            arrive(at_.keys_released());
            add_job(Walk<T>(args_, number));
        }
    }

private:
    BlockMemory<T>& memory_;
    Addresses<T> at_;
    const KernelArgs& args_;
    const unsigned group_;
    RingPosition turn_;

    __device__ __forceinline__ void add_job(Walk<T> walk) {
#pragma unroll 1
        for (int left = walk.count(); left > 0; --left) {
            const uint32_t tiles = static_cast<uint32_t>(args_.padded / T::kQueries);
            const uint32_t chunk = (walk.unit(args_) * tiles + static_cast<uint32_t>(walk.tile)) * T::kGroups + group_;
            float* const sums = args_.sums + int64_t{chunk} * T::kChunk;
            const unsigned which = turn_.stage * T::kGroups + group_;
            const auto place =
                static_cast<unsigned>(place_in_tile<T::kQueries, T::kKeys>(args_.view, walk.tile, walk.job.block));
            if (place > 0) {
                while (read_turn(args_.turns + chunk) != place) {
                }
                join_async();
            }
            wait_for_phase(at_.sums_filled(which), static_cast<int>(turn_.phase));
            if (place > 0)
                add_floats(sums, at_.sums(which), T::kSumBytes);
            else
                store_bytes(sums, at_.sums(which), T::kSumBytes);
            finish_stores();
            join_async();
            pass_turn(args_.turns + chunk, place + 1);
            arrive(at_.sums_released(which));
            turn_ = turn_.plus<T::kStages>(1);
            walk.next();
        }
    }
};

// Named barriers of both groups: 0 is __syncthreads'.
constexpr int kPairsThere = 1;
constexpr int kPairsRead = 2; // and the next: of each group, for the other

// Four 8 x 8 matrices to shared memory, columns as rows, one row's address from each lane.
__device__ __forceinline__ void store_turned(SharedAddress row, const uint32_t (&words)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

// Two floats that a lane's columns 8 * j and the next have in common with all rows.
__device__ __forceinline__ float2 load_pair(SharedAddress from) {
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from));
    return x;
}

// What a group does with its keys.
template <class Number, class T>
class Group {
public:
    __device__ Group(const BlockMemory<T>& memory, const KernelArgs& args, int group)
        : memory_(memory), args_(args), group_(group), at_{uniform(address_of(&memory))},
          rows_(RowDescriptor::at(&memory)), columns_(ColumnDescriptor::at(&memory)) {
        const unsigned lane = threadIdx.x % kWarpSize;
        const unsigned warp = threadIdx.x % kGroupThreads / kWarpSize;
        facts_ = lane % 4 * 8;
        // Its row of four matrices: of 16 queries, and of 16 keys two pieces of a row, swizzled.
        pair_row_ = at_.pairs(static_cast<unsigned>(group)) + (lane / 16 * 8 + lane % 8) * T::kRowBytes +
                    ((2 * warp + lane / 8 % 2) ^ lane % 8) * 16;
        sum_ = at_.sums(static_cast<unsigned>(group)) + threadIdx.x % kGroupThreads * 16;
    }

    __device__ void run() {
        if constexpr (T::kHasDq) pass_for_other_group(kPairsRead + group_); // nothing is there to be read yet
        for (unsigned phase = 0;; phase ^= 1) {
            wait_for_phase(at_.keys_filled(), static_cast<int>(phase));
            const uint32_t number = uniform(*const_cast<const volatile uint32_t*>(&memory_.job));
            if (number >= args_.work.jobs) break;
            work(number);
        }
        if constexpr (T::kHasDq) wait_for_other_group(kPairsRead + (group_ ^ 1));
    }

private:
    static constexpr int kPairs = T::kQueries / 2;                          // of a thread, of a tile
    static constexpr int kSteps = T::kQueries / 16;                         // of dV and dK
    static constexpr int kColumnSteps = T::kDim / 16;                       // of S and dP
    using RowDescriptor = PlaneDescriptor<T::kRowBytes>;                    // what is multiplied is along rows
    using ColumnDescriptor = PlaneDescriptor<T::kRowBytes, T::kQueryPanel>; // down the columns, of several panels
    using Memory = BlockMemory<T>;
    using Pairs = Product<Number, T::kQueries>;
    using Sums = Product<Number, T::kDim>;

    const BlockMemory<T>& memory_;
    const KernelArgs& args_;
    const int group_;
    Addresses<T> at_;
    RowDescriptor rows_; // of the beginning of shared memory
    ColumnDescriptor columns_;
    SharedAddress pair_row_;
    SharedAddress sum_;
    uint32_t facts_;
    RingPosition turn_; // of queries, of dO and of sums
    float s_[kPairs];   // scores, then P
    float dp_[kPairs];
    float dv_[T::kDim / 2];
    float dk_[T::kDim / 2];
    float dq_[T::kGroupSums];
    uint32_t p_[kSteps][4];
    uint32_t ds_[kSteps][4];

    // Where a lane's queries begin to see its two keys, counted from its first query of tile 0.
    struct Mask {
        int from[2];
        int last_key; // of the group
    };

    __device__ __forceinline__ void work(uint32_t number) {
        go_through(number);
        arrive(at_.keys_released());
        asm volatile("" : "+r"(number)); // looked up again rather than kept
        const KeyJob job = args_.work.job(number);
        store(job, first_row(job));
    }

    __device__ __forceinline__ int first_row(const KeyJob& job) const {
        return job.block * T::kKeys + static_cast<int>(threadIdx.x / kWarpSize * 16 + threadIdx.x % kWarpSize / 4);
    }

    __device__ __forceinline__ void go_through(uint32_t number) {
        Walk<T> walk(args_, number);
        const int first = walk.job.block * T::kKeys + group_ * kGroupKeys;
        const int row = first_row(walk.job);
        Mask mask{{0, 0}, first + kGroupKeys - 1};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int key = row + 8 * i;
            constexpr int kFar = 1 << 30;
            mask.from[i] = key >= args_.view.keys ? kFar : args_.view.causal ? key + 1 - args_.view.of_first : -kFar;
            mask.from[i] -= static_cast<int>(2 * (threadIdx.x % 4));
        }
#pragma unroll
        for (int i = 0; i < T::kDim / 2; ++i) dv_[i] = dk_[i] = 0;
        int left = walk.count();
        if constexpr (T::kAhead) {
            if (left == 0) return;
            begin_scores(turn_);
            wait_for_products<0>();
            pin(s_);
            for (; left > 1; --left) {
                tile_ahead<true>(walk.tile, mask);
                walk.next();
            }
            tile_ahead<false>(walk.tile, mask);
        } else {
            for (; left > 0; --left) {
                tile(walk.tile, mask);
                walk.next();
            }
        }
    }

    __device__ __forceinline__ void tile(int tile, const Mask& mask) {
        begin_scores(turn_);
        begin_value_products();
        wait_for_products<1>();
        pin(s_);
        form_weights(turn_, tile, mask);
        pack(p_, s_);
        begin_values();
        wait_for_products<1>();
        pin(dp_);
        form_pairs();
        if constexpr (T::kHasDq) {
            share_pairs();
            begin_queries();
        }
        begin_keys();
        wait_for_products<1>();
        end_values();
        if constexpr (T::kHasDq) {
            wait_for_room();
            hand_over_queries();
        }
        wait_for_products<0>();
        end_keys();
    }

    // With its scores, and more: until those of the next one, which are multiplied while dQ is handed over.
    template <bool kMore>
    __device__ __forceinline__ void tile_ahead(int tile, const Mask& mask) {
        begin_value_products();
        form_weights(turn_, tile, mask);
        pack(p_, s_);
        begin_values();
        wait_for_products<1>();
        pin(dp_);
        form_pairs();
        if constexpr (T::kHasDq) share_pairs();
        if constexpr (T::kHasDq) begin_queries();
        begin_keys();
        wait_for_products<1>();
        end_values();
        if constexpr (T::kHasDq) pin(dq_);
        if constexpr (kMore) begin_scores(turn_.template plus<T::kStages>(1));
        if constexpr (T::kHasDq) {
            wait_for_room();
            hand_over_queries();
        }
        wait_for_products<0>();
        if constexpr (kMore) pin(s_);
        end_keys();
    }

    // The group's 64 of the rows that begin at `offset`.
    __device__ __forceinline__ RowDescriptor own_rows(uint32_t offset) const {
        return rows_.plus(offset + static_cast<uint32_t>(group_) * 64 * T::kRowBytes);
    }

    // S = K Q^T.
    __device__ __forceinline__ void begin_scores(RingPosition turn) {
        wait_for_phase(at_.queries_filled(turn.stage), static_cast<int>(turn.phase));
        multiply_rows(s_, own_rows(offsetof(Memory, keys)),
                      rows_.plus(offsetof(Memory, queries) + turn.stage * T::kQueryBytes));
    }

    // dP = V dO^T.
    __device__ __forceinline__ void begin_value_products() {
        wait_for_phase(at_.douts_filled(turn_.stage), static_cast<int>(turn_.phase));
        multiply_rows(dp_, own_rows(offsetof(Memory, values)),
                      rows_.plus(offsetof(Memory, douts) + turn_.stage * T::kQueryBytes));
    }

    __device__ __forceinline__ void multiply_rows(float (&sums)[kPairs], RowDescriptor a, RowDescriptor b) {
        begin_products();
        Pairs::begin(sums, a, b);
#pragma unroll
        for (uint32_t step = 1; step < kColumnSteps; ++step)
            Pairs::add(sums, a.plus(step / 4 * T::kKeyPanel + step % 4 * 32),
                       b.plus(step / 4 * T::kQueryPanel + step % 4 * 32));
        commit_products();
    }

    // P of scores; 0 where a query does not see the key.
    __device__ __forceinline__ void form_weights(RingPosition turn, int tile, const Mask& mask) {
        const SharedAddress levels = at_.levels(turn.stage) + facts_;
        if (*const_cast<const volatile uint32_t*>(&memory_.far) != 0) take_origins(at_.origins(turn.stage) + facts_);
#pragma unroll
        for (int i = 0; i < kPairs; i += 4) {
            const float2 level = load_pair(levels + i * 8);
            s_[i] = half_forward::power_of_2(__fmaf_rn(s_[i], args_.log2_scale, -level.x));
            s_[i + 1] = half_forward::power_of_2(__fmaf_rn(s_[i + 1], args_.log2_scale, -level.y));
            s_[i + 2] = half_forward::power_of_2(__fmaf_rn(s_[i + 2], args_.log2_scale, -level.x));
            s_[i + 3] = half_forward::power_of_2(__fmaf_rn(s_[i + 3], args_.log2_scale, -level.y));
        }
        const int query = tile * T::kQueries;
        if (mask.last_key < args_.view.of(query)) return;
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
            if (i / 4 * 8 + i % 2 < mask.from[i % 4 / 2] - query) s_[i] = 0;
    }

    __device__ __forceinline__ void take_origins(SharedAddress origins) {
#pragma unroll
        for (int i = 0; i < kPairs; i += 4) {
            const float2 origin = load_pair(origins + i * 8);
            s_[i] = __fsub_rn(s_[i], origin.x);
            s_[i + 1] = __fsub_rn(s_[i + 1], origin.y);
            s_[i + 2] = __fsub_rn(s_[i + 2], origin.x);
            s_[i + 3] = __fsub_rn(s_[i + 3], origin.y);
        }
    }

    // dV += P dO.
    __device__ __forceinline__ void begin_values() {
        const ColumnDescriptor dout = columns_.plus(offsetof(Memory, douts) + turn_.stage * T::kQueryBytes);
        pin_words(p_);
        pin(dv_);
        begin_products();
#pragma unroll
        for (uint32_t step = 0; step < kSteps; ++step) Sums::add(dv_, p_[step], dout.plus(step * 16 * T::kRowBytes));
        commit_products();
    }

    __device__ __forceinline__ void form_pairs() {
        const SharedAddress products = at_.products(turn_.stage) + facts_;
#pragma unroll
        for (int i = 0; i < kPairs; i += 4) {
            const float2 product = load_pair(products + i * 8);
            dp_[i] = __fmul_rn(s_[i], __fsub_rn(dp_[i], product.x));
            dp_[i + 1] = __fmul_rn(s_[i + 1], __fsub_rn(dp_[i + 1], product.y));
            dp_[i + 2] = __fmul_rn(s_[i + 2], __fsub_rn(dp_[i + 2], product.x));
            dp_[i + 3] = __fmul_rn(s_[i + 3], __fsub_rn(dp_[i + 3], product.y));
        }
        pack(ds_, dp_);
    }

    // To where both groups read them.
    __device__ __forceinline__ void share_pairs() {
        wait_for_other_group(kPairsRead + (group_ ^ 1));
#pragma unroll
        for (int step = 0; step < kSteps; ++step) store_turned(pair_row_ + step * 16 * T::kRowBytes, ds_[step]);
        publish_to_async();
        wait_for_other_group(kPairsThere);
    }

    // dQ = dS K, of 64 queries or of 64 columns.
    __device__ __forceinline__ void begin_queries() {
        const RowDescriptor pairs =
            T::kSplitsColumns ? rows_.plus(offsetof(Memory, pairs)) : own_rows(offsetof(Memory, pairs));
        const ColumnDescriptor k = columns_.plus(
            offsetof(Memory, keys) + (T::kSplitsColumns ? static_cast<uint32_t>(group_) * T::kKeyPanel : 0));
        begin_products();
        Product<Number, 64>::begin_down(dq_, pairs, k);
#pragma unroll
        for (uint32_t step = 1; step < T::kKeys / 16; ++step)
            Product<Number, 64>::add_down(dq_, pairs.plus(step / 4 * T::kPairPanel + step % 4 * 32),
                                          k.plus(step * 16 * T::kRowBytes));
        commit_products();
    }

    // dK += dS Q.
    __device__ __forceinline__ void begin_keys() {
        const ColumnDescriptor q = columns_.plus(offsetof(Memory, queries) + turn_.stage * T::kQueryBytes);
        pin_words(ds_);
        pin(dk_);
        begin_products();
#pragma unroll
        for (uint32_t step = 0; step < kSteps; ++step) Sums::add(dk_, ds_[step], q.plus(step * 16 * T::kRowBytes));
        commit_products();
    }

    __device__ __forceinline__ void end_values() {
        pin(dv_);
        pin_words(p_); // which are read until now
        arrive(at_.douts_released(turn_.stage));
    }

    __device__ __forceinline__ void end_keys() {
        pin(dk_);
        pin_words(ds_);
        arrive(at_.queries_released(turn_.stage));
        turn_ = turn_.template plus<T::kStages>(1);
    }

    __device__ __forceinline__ unsigned sums_stage() const {
        return turn_.stage * T::kGroups + static_cast<unsigned>(group_);
    }
    __device__ __forceinline__ void wait_for_room() const {
        wait_for_phase(at_.sums_released(sums_stage()), static_cast<int>(turn_.phase ^ 1));
    }

    // To the thread that adds it up.
    __device__ __forceinline__ void hand_over_queries() {
        pin(dq_);
        pass_for_other_group(kPairsRead + group_);
        const SharedAddress to = sum_ + turn_.stage * T::kGroups * T::kSumBytes;
#pragma unroll
        for (int i = 0; i < T::kGroupSums; i += 4)
            store4(to + i * 4 * kGroupThreads, dq_[i], dq_[i + 1], dq_[i + 2], dq_[i + 3]);
        publish_to_async();
        __syncwarp();
        if (is_elected()) arrive(at_.sums_filled(sums_stage()));
    }

    __device__ __forceinline__ void store(const KeyJob& job, int row) const {
        const auto rows_of = [&](const Operand& of) {
            uint16_t* const head = static_cast<uint16_t*>(of.at) + job.batch * of.batch + job.kv_head * of.head;
            half_forward::OutputRows to{{nullptr, nullptr}, args_.dim};
#pragma unroll
            for (int i = 0; i < 2; ++i)
                if (row + 8 * i < args_.view.keys) to.row[i] = head + (row + 8 * i) * of.row;
            return to;
        };
        const float one[2] = {1, 1};
        half_forward::store_rows<GradientsOf<Number>>(dv_, one, rows_of(args_.dv));
        const float scale[2] = {args_.scale, args_.scale};
        half_forward::store_rows<GradientsOf<Number>>(dk_, scale, rows_of(args_.dk));
    }

    static __device__ __forceinline__ void pack(uint32_t (&words)[kSteps][4], const float (&from)[kPairs]) {
        half_forward::pack_weights<Number>(words, from);
    }
    static __device__ __forceinline__ void pin_words(uint32_t (&words)[kSteps][4]) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) pin(words[step]);
    }
};

template <class Number, class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    gradient_kernel(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                    const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap dout,
                    const __grid_constant__ KernelArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char block_memory[];
    auto& memory = *reinterpret_cast<BlockMemory<T>*>(block_memory);
    if (address_of(block_memory) % 1024 != 0) __trap(); // the swizzle counts from there
    if (threadIdx.x == 0) {
        prefetch_map(&q);
        prefetch_map(&k);
        prefetch_map(&v);
        prefetch_map(&dout);
        memory.init();
        memory.far = args.counters[kFarRows];
    }
    __syncthreads();
    const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (group == T::kGroups) {
        give_registers_back<T::kCopierRegisters>();
        const unsigned thread = threadIdx.x - T::kGroups * kGroupThreads;
        if (thread == 0)
            Copier<T>(memory, q, k, v, dout, args).run();
        else if (T::kHasDq && thread % kWarpSize == 0 && thread / kWarpSize <= T::kGroups)
            Adder<T>(memory, args, thread / kWarpSize - 1).run();
    } else {
        take_registers<T::kGroupRegisters>();
        Group<Number, T>(memory, args, group).run();
    }
#else
    __trap();
#endif
}

// One block a multiprocessor, or fewer.
template <class Number, class T>
void launch_gradient_kernel(const Args& args, int64_t most_blocks, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(BlockMemory<T>);
    static_assert(kBytes <= kBlockBytes);
    const half_forward::Args& forward = args.forward;
    const auto operand = [&](const Operand& from, int64_t rows, int64_t heads, int box_rows) {
        return half_forward::tensor_map(forward.type, from, forward.dim, rows, heads, forward.batches, box_rows);
    };
    const CUtensorMap q = operand(forward.q, forward.queries, forward.heads, T::kQueries);
    const CUtensorMap k = operand(forward.k, forward.keys, forward.kv_heads, T::kKeys);
    const CUtensorMap v = operand(forward.v, forward.keys, forward.kv_heads, T::kKeys);
    const CUtensorMap dout = operand(args.dout, forward.queries, forward.heads, T::kQueries);
    const KernelArgs kernel_args(args, T::kKeys);
    const auto kernel = gradient_kernel<Number, T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int64_t blocks = std::min<int64_t>(kernel_args.work.jobs, most_blocks);
    kernel<<<static_cast<unsigned>(blocks), T::kThreads, kBytes, stream>>>(q, k, v, dout, kernel_args);
    HW4_CUDA_LAUNCHED("gradient_kernel");
}

} // namespace hw4::gpu::half_backward
