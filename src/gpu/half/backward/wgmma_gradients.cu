// wgmma_bf16_gradients, wgmma_fp16_gradients: backward in bf16 or fp16 on Hopper's tensor cores, summed up in float32,
// dQ in a fixed order.
//
// Idea      Five products, each once: keys stay, P and dS are the left operands of dV and dK from registers, and a
//           block's dQ is added to sums in memory.
// Work      One block per multiprocessor, which takes job after job: two groups of 64 keys, a warp that starts copies
//           of tiles, and two that start the additions of dQ, of every other tile.
// Memory    K and V; two stages of Q, dO and dQ; dS: 195 KiB at d = 64 with tiles of 128 queries, 210 KiB at 128 with
//           64. 240 registers per thread. In global memory L, origin and D of each row and the sums of dQ.
// Overlap   dP with P, dV with dS, at d = 128 dK with the exchange of dS, and S and dP of the next tile with the
//           handover of dQ; copies and additions with everything.
// Masks     Tiles in which no query sees a key are skipped, and only tiles in which some do not are masked.
// Order     args.h. Blocks of keys add to dQ from the last to the first, and start in that order.
// Limits    At d = 128 power, and shared memory: S, dP and dQ read both operands from there at its full rate.
// Slower    dQ in a kernel of its own, which computes S and dP again and needs no order: 0.87 to 0.91 times the speed.
//           At d = 64 the order of products of d = 128: 0.98.
#include <cstddef>

#include "src/gpu/device/check.h"
#include "src/gpu/half/backward/args.h"
#include "src/gpu/half/backward/wgmma_copies.cuh"
#include "src/gpu/half/forward/output_rows.cuh"
#include "src/gpu/half/forward/wgmma_block.cuh"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu::half_backward {

// ---- The kernel: a block of keys stays, tiles of queries pass by. With keys as rows of the pairs, P and dS are the
// left operands of dV and dK directly from registers; dQ has queries as rows, so dS goes through shared memory,
// which brings both groups' keys together.
//
// A tile:  S = K Q^T and dP = V dO^T; P from S while dP is multiplied; dV += P dO; dS from P and dP; both groups' dS in
//          shared memory; dQ = dS K, dK += dS Q, and with kAhead S and dP of the next tile; dQ to shared memory, and
//          from there asynchronously added to its sums.
//
// Blocks add to the sums of dQ in turns: a counter for each tile is the number of blocks that have added, and a block
// waits for the blocks with later keys. Jobs start in that order, too (args.h), so no block waits for a job
// that has not started. The first block stores instead of adding.
//
// Barriers: `filled` of a stage ends its round when the copy engine has written all its bytes, `released` when every
// thread of both groups has read its data and seen the end of the products that read the rest.

using half_forward::Bf16;
using half_forward::Fp16;
using half_forward::Product;

// Named barriers of both groups: 0 is that of __syncthreads().
constexpr int kPairsThere = 1;
constexpr int kPairsRead = 2; // and the next: for each group, one that the other waits at

// Stores four 8 x 8 matrices to shared memory, transposed, one row's address from each lane.
__device__ __forceinline__ void store_turned(SharedAddress row, const uint32_t (&words)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

// Two floats, for a lane's columns 8 * j and 8 * j + 1, the same in all rows.
__device__ __forceinline__ float2 load_pair(SharedAddress from) {
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from));
    return x;
}

// The work of a group on its keys.
template <class Number, class T>
class Group {
public:
    __device__ Group(const BlockMemory<T>& memory, const KernelArgs& args, int group)
        : memory_(memory), args_(args), group_(group), at_{uniform(address_of(&memory))},
          rows_(RowDescriptor::at(&memory)), columns_(ColumnDescriptor::at(&memory)) {
        const unsigned lane = threadIdx.x % kWarpSize;
        const unsigned warp = threadIdx.x % kGroupThreads / kWarpSize;
        facts_ = lane % 4 * 8;
        // The lane's row of four matrices: 16 queries, and for 16 keys two pieces of a row, swizzled.
        pair_row_ = at_.pairs(static_cast<unsigned>(group)) + (lane / 16 * 8 + lane % 8) * T::kRowBytes +
                    ((2 * warp + lane / 8 % 2) ^ lane % 8) * 16;
        sum_ = at_.sums() + static_cast<uint32_t>(group) * T::kSumBytes + threadIdx.x % kGroupThreads * 16;
    }

    __device__ void run() {
        pass_for_other_group(kPairsRead + group_); // there is nothing to read yet
        for (unsigned phase = 0;; phase ^= 1) {
            wait_for_phase(at_.keys_filled(), static_cast<int>(phase));
            const uint32_t number = uniform(*const_cast<const volatile uint32_t*>(&memory_.job));
            if (number >= args_.work.jobs) break;
            work(number);
        }
        wait_for_other_group(kPairsRead + (group_ ^ 1));
    }

private:
    static constexpr int kPairs = T::kQueries / 2;                          // of a thread and a tile
    static constexpr int kSteps = T::kQueries / 16;                         // of dV and dK
    static constexpr int kColumnSteps = T::kDim / 16;                       // of S and dP
    using RowDescriptor = PlaneDescriptor<T::kRowBytes>;                    // the product runs along rows
    using ColumnDescriptor = PlaneDescriptor<T::kRowBytes, T::kQueryPanel>; // down the columns, of several panels
    using Memory = BlockMemory<T>;
    using Pairs = Product<Number, T::kQueries>;
    using Sums = Product<Number, T::kDim>;

    const BlockMemory<T>& memory_;
    const KernelArgs& args_;
    const int group_;
    Addresses<T> at_;
    RowDescriptor rows_; // at the beginning of shared memory
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

    // The first query that sees each of the lane's two keys, counted from its first query of tile 0.
    struct Mask {
        int from[2];
        int last_key; // of the group; where some rows have origins, larger than any key
    };

    __device__ __forceinline__ void work(uint32_t number) {
        go_through(number);
        arrive(at_.keys_released());
        asm volatile("" : "+r"(number)); // computed again rather than kept
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
        constexpr int kFar = 1 << 30;
        Mask mask{{0, 0}, memory_.far != 0 ? kFar : first + kGroupKeys - 1};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int key = row + 8 * i;
            mask.from[i] = key >= args_.view.keys ? kFar : args_.view.causal ? key + 1 - args_.view.of_first : -kFar;
            mask.from[i] -= static_cast<int>(2 * (threadIdx.x % 4));
        }
#pragma unroll
        for (int i = 0; i < T::kDim / 2; ++i) dv_[i] = dk_[i] = 0;
        int left = walk.count();
        if (left == 0) return;
        if constexpr (T::kAhead) {
            begin_scores(turn_);
            begin_value_products(turn_);
            end_scores(turn_, walk.tile, mask);
            for (; left > 1; --left) {
                walk.next();
                tile_ahead<true>(walk.tile, mask);
            }
            tile_ahead<false>(0, mask);
        } else {
            for (; left > 0; --left) {
                tile(walk.tile, mask);
                walk.next();
            }
        }
    }

    __device__ __forceinline__ void tile(int tile, const Mask& mask) {
        begin_scores(turn_);
        begin_value_products(turn_);
        wait_for_products<1>();
        pin(s_);
        form_weights(turn_, tile, mask);
        pack(p_, s_);
        begin_values();
        wait_for_products<1>();
        pin(dp_);
        form_pairs();
        store_pairs();
        publish_pairs();
        begin_queries();
        begin_keys();
        wait_for_products<1>();
        end_values();
        wait_for_room();
        store_queries();
        publish_queries();
        wait_for_products<0>();
        end_keys();
        turn_ = turn_.template plus<T::kStages>(1);
    }

    // Ends the products of a tile's scores, forms the weights, and ends the products of its values.
    __device__ __forceinline__ void end_scores(RingPosition turn, int tile, const Mask& mask) {
        wait_for_products<1>();
        pin(s_);
        form_weights(turn, tile, mask);
        wait_for_products<0>();
        pin(dp_);
    }

    // A tile whose weights and dP are there; with kMore, it ends with the weights and dP of the next tile. dK needs no
    // dS of the other group, and dP of the next tile begins before the fence, so the tensor cores have work while the
    // group waits.
    template <bool kMore>
    __device__ __forceinline__ void tile_ahead(int next_tile, const Mask& mask) {
        const RingPosition next = turn_.template plus<T::kStages>(1);
        pack(p_, s_);
        begin_values();
        form_pairs();
        store_pairs();
        begin_keys();
        publish_pairs();
        begin_queries();
        wait_for_products<1>();
        end_values();
        end_keys();
        if constexpr (kMore) begin_scores(next);
        wait_for_products<kMore ? 1 : 0>();
        wait_for_room();
        store_queries();
        if constexpr (kMore) begin_value_products(next);
        publish_queries();
        if constexpr (kMore) end_scores(next, next_tile, mask);
        turn_ = next;
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
    __device__ __forceinline__ void begin_value_products(RingPosition turn) {
        wait_for_phase(at_.douts_filled(turn.stage), static_cast<int>(turn.phase));
        multiply_rows(dp_, own_rows(offsetof(Memory, values)),
                      rows_.plus(offsetof(Memory, douts) + turn.stage * T::kQueryBytes));
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

    // Turns scores into P; 0 if a query does not see the key.
    __device__ __forceinline__ void form_weights(RingPosition turn, int tile, const Mask& mask) {
        const int query = tile * T::kQueries;
        const bool ordinary = mask.last_key < args_.view.of(query);
        const SharedAddress levels = at_.levels(turn.stage) + facts_;
        if (!ordinary && memory_.far != 0) take_origins(at_.origins(turn.stage) + facts_);
#pragma unroll
        for (int i = 0; i < kPairs; i += 4) {
            const float2 level = load_pair(levels + i * 8);
            s_[i] = half_forward::power_of_2(__fmaf_rn(s_[i], args_.log2_scale, -level.x));
            s_[i + 1] = half_forward::power_of_2(__fmaf_rn(s_[i + 1], args_.log2_scale, -level.y));
            s_[i + 2] = half_forward::power_of_2(__fmaf_rn(s_[i + 2], args_.log2_scale, -level.x));
            s_[i + 3] = half_forward::power_of_2(__fmaf_rn(s_[i + 3], args_.log2_scale, -level.y));
        }
        if (ordinary) return;
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

    // These two store dS where both groups read it.
    __device__ __forceinline__ void store_pairs() {
        wait_for_other_group(kPairsRead + (group_ ^ 1));
#pragma unroll
        for (int step = 0; step < kSteps; ++step) store_turned(pair_row_ + step * 16 * T::kRowBytes, ds_[step]);
    }
    __device__ __forceinline__ void publish_pairs() {
        publish_to_async();
        wait_for_other_group(kPairsThere);
    }

    // dQ = dS K, for 64 queries or for 64 columns.
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
        pin_words(p_); // the products read them until now
        arrive(at_.douts_released(turn_.stage));
    }

    __device__ __forceinline__ void end_keys() {
        pin(dk_);
        pin_words(ds_);
        arrive(at_.queries_released(turn_.stage));
    }

    __device__ __forceinline__ void wait_for_room() const {
        wait_for_phase(at_.sums_released(turn_.stage), static_cast<int>(turn_.phase ^ 1));
    }

    // These two hand dQ to the thread that adds it.
    __device__ __forceinline__ void store_queries() {
        pin(dq_);
        pass_for_other_group(kPairsRead + group_);
        const SharedAddress to = sum_ + turn_.stage * T::kGroups * T::kSumBytes;
#pragma unroll
        for (int i = 0; i < T::kGroupSums; i += 4)
            store4(to + i * 4 * kGroupThreads, dq_[i], dq_[i + 1], dq_[i + 2], dq_[i + 3]);
    }
    __device__ __forceinline__ void publish_queries() const {
        publish_to_async();
        arrive_by_warp(at_.sums_filled(turn_.stage));
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
    auto& memory = memory_of_block<BlockMemory<T>>();
    if (threadIdx.x == 0) {
        prepare_block(memory, q, k, v, dout);
        memory.far = args.counters[kFarRows];
    }
    __syncthreads();
    const int group = begin_group<T>();
    if (group == T::kGroups) {
        const unsigned thread = threadIdx.x - T::kGroups * kGroupThreads;
        if (thread == 0)
            Copier<T>(memory, q, k, v, dout, args).run();
        else if (thread % kWarpSize == 0 && thread / kWarpSize <= T::kAdders)
            Adder<T>(memory, args, thread / kWarpSize - 1).run();
    } else {
        Group<Number, T>(memory, args, group).run();
    }
#else
    __trap();
#endif
}

// At most one block per multiprocessor.
template <class Number, class T>
void launch_gradient_kernel(const Args& args, int64_t most_blocks, cudaStream_t stream) {
    const half_forward::Args& forward = args.forward;
    const KernelArgs kernel_args(args, T::kKeys);
    launch_blocks<T, BlockMemory<T>>("launch of gradient_kernel", gradient_kernel<Number, T>, kernel_args.work.jobs,
                                     most_blocks, stream, query_map(forward, forward.q, T::kQueries),
                                     key_map(forward, forward.k, T::kKeys), key_map(forward, forward.v, T::kKeys),
                                     query_map(forward, args.dout, T::kQueries), kernel_args);
}

namespace {

using For64 = Variant<Sizes64>;
using For128 = Variant<Sizes128>;

template <class Number>
void launch_wgmma_for(const Args& args, int64_t blocks, cudaStream_t stream) {
    if (args.forward.dim <= For64::kDim)
        launch_gradient_kernel<Number, For64>(args, blocks, stream);
    else
        launch_gradient_kernel<Number, For128>(args, blocks, stream);
}

} // namespace

size_t wgmma_gradient_bytes(int64_t dim) {
    return dim <= For64::kDim ? sizeof(BlockMemory<For64>) : sizeof(BlockMemory<For128>);
}

void launch_wgmma(const Args& args, const Device& device, cudaStream_t stream) {
    prepare_rows(args, stream);
    if (args.forward.type == NumberType::bf16)
        launch_wgmma_for<Bf16>(args, device.multiprocessors, stream);
    else
        launch_wgmma_for<Fp16>(args, device.multiprocessors, stream);
    finish_queries(args, stream);
}

} // namespace hw4::gpu::half_backward
