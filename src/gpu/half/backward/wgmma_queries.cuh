// dQ by a kernel of its own: a block of queries stays, tiles of keys pass by, from the last to the first. S and dP are
// computed once more; nobody waits for another block.
#pragma once

#include "src/gpu/half/backward/wgmma_kernel.cuh"

namespace hw4::gpu::half_backward {

template <int kDim_, int kKeys_>
struct QueryVariant {
    static constexpr int kDim = kDim_;
    static constexpr int kKeys = kKeys_; // of a tile
    static constexpr int kGroups = 2;
    static constexpr int kRows = kGroups * 64;
    static constexpr int kStages = 2;
    static constexpr int kThreads = (kGroups + 1) * kGroupThreads;
    static constexpr int kReaders = kGroups * kGroupThreads;
    static constexpr int kWarps = kReaders / kWarpSize;
    static constexpr int kCopierRegisters = 40;
    static constexpr int kGroupRegisters = 232;
    static constexpr int kPanels = kDim / kBoxColumns;
    static constexpr int kRowBytes = 2 * kBoxColumns;
    static constexpr int kQueryPanel = kRows * kRowBytes;
    static constexpr int kKeyPanel = kKeys * kRowBytes;
    static constexpr int kQueryBytes = kPanels * kQueryPanel;
    static constexpr int kTileBytes = kPanels * kKeyPanel;
};

template <class T>
struct QueryMemory {
    alignas(1024) unsigned char queries[T::kQueryBytes];
    unsigned char douts[T::kQueryBytes];
    unsigned char keys[T::kStages][T::kTileBytes];
    unsigned char values[T::kStages][T::kTileBytes];
    uint64_t queries_filled;
    uint64_t queries_released;
    uint64_t keys_filled[T::kStages];
    uint64_t keys_released[T::kStages];
    uint64_t values_filled[T::kStages];
    uint64_t values_released[T::kStages];
    uint32_t job;

    __device__ void init() {
        init_barrier(address_of(&queries_filled), 1);
        init_barrier(address_of(&queries_released), T::kReaders);
        for (int i = 0; i < T::kStages; ++i) {
            init_barrier(address_of(&keys_filled[i]), 1);
            init_barrier(address_of(&keys_released[i]), T::kWarps);
            init_barrier(address_of(&values_filled[i]), 1);
            init_barrier(address_of(&values_released[i]), T::kWarps);
        }
        publish_barriers();
        publish_to_async();
    }
};

struct QueryArgs {
    KernelArgs all;
    half_forward::Work work;
};

template <class T>
__device__ void copy_for_queries(QueryMemory<T>& memory, const CUtensorMap& q, const CUtensorMap& k,
                                 const CUtensorMap& v, const CUtensorMap& dout, const QueryArgs& args) {
    RingPosition turn;
    for (unsigned phase = 1;; phase ^= 1) {
        const uint32_t number = atomicAdd(args.all.counters + kQueryJobs, 1u);
        const SharedAddress filled = address_of(&memory.queries_filled);
        wait_for_phase(address_of(&memory.queries_released), static_cast<int>(phase));
        memory.job = number;
        if (number >= args.work.jobs) {
            arrive(filled);
            return;
        }
        const half_forward::Job job = args.work.job(number);
        const int head = static_cast<int>(job.head);
        const int kv_head = static_cast<int>(job.head / args.all.group);
        const int batch = static_cast<int>(job.batch);
        expect_bytes(filled, 2 * T::kQueryBytes);
        for (int panel = 0; panel < T::kPanels; ++panel) {
            copy_box(address_of(memory.queries) + panel * T::kQueryPanel, &q, panel * kBoxColumns, job.first, head,
                     batch, filled);
            copy_box(address_of(memory.douts) + panel * T::kQueryPanel, &dout, panel * kBoxColumns, job.first, head,
                     batch, filled);
        }
        for (int tile = args.all.view.tiles<T::kKeys>(job.first, job.first + T::kRows) - 1; tile >= 0; --tile) {
            const auto copy_tile = [&](const CUtensorMap& map, unsigned char* to, uint64_t& full, uint64_t& released) {
                wait_for_phase(address_of(&released), static_cast<int>(turn.phase ^ 1));
                expect_bytes(address_of(&full), T::kTileBytes);
                for (int panel = 0; panel < T::kPanels; ++panel)
                    copy_box(address_of(to) + panel * T::kKeyPanel, &map, panel * kBoxColumns, tile * T::kKeys, kv_head,
                             batch, address_of(&full));
            };
            copy_tile(k, memory.keys[turn.stage], memory.keys_filled[turn.stage], memory.keys_released[turn.stage]);
            copy_tile(v, memory.values[turn.stage], memory.values_filled[turn.stage],
                      memory.values_released[turn.stage]);
            turn = turn.plus<T::kStages>(1);
        }
    }
}

template <class Number, class T>
class QueryGroup {
public:
    __device__ QueryGroup(const QueryMemory<T>& memory, const QueryArgs& args, int group)
        : memory_(memory), args_(args), group_(group), rows_(RowDescriptor::at(&memory)),
          columns_(ColumnDescriptor::at(&memory)) {}

    __device__ void run() {
        for (unsigned phase = 0;; phase ^= 1) {
            wait_for_phase(address_of(&memory_.queries_filled), static_cast<int>(phase));
            const uint32_t number = uniform(*const_cast<const volatile uint32_t*>(&memory_.job));
            if (number >= args_.work.jobs) return;
            work(args_.work.job(number));
        }
    }

private:
    using Memory = QueryMemory<T>;
    using RowDescriptor = PlaneDescriptor<T::kRowBytes>;
    using ColumnDescriptor = PlaneDescriptor<T::kRowBytes, T::kKeyPanel>;
    static constexpr int kPairs = T::kKeys / 2;
    static constexpr int kSteps = T::kKeys / 16;

    const Memory& memory_;
    const QueryArgs& args_;
    const int group_;
    RowDescriptor rows_;
    ColumnDescriptor columns_;
    RingPosition turn_;

    __device__ __forceinline__ void work(const half_forward::Job& job) {
        const View& view = args_.all.view;
        const int row = job.first + static_cast<int>(threadIdx.x / kWarpSize * 16 + threadIdx.x % kWarpSize / 4);
        const int column = static_cast<int>(2 * (threadIdx.x % 4));
        const int64_t unit = int64_t{job.batch} * args_.all.heads + job.head;
        const float* const levels = args_.all.levels + unit * args_.all.padded + row;
        const float* const products = args_.all.products + unit * args_.all.padded + row;
        const float level[2] = {levels[0], levels[8]};
        const float* const origins = args_.all.origins + unit * args_.all.padded + row;
        const float origin[2] = {origins[0], origins[8]};
        const bool far = __any_sync(kAllLanes, origin[0] != 0 || origin[1] != 0);
        const float product[2] = {products[0], products[8]};
        const int seen[2] = {view.of(row) - column, view.of(row + 8) - column};
        const int whole = view.of(job.first + group_ * 64) / T::kKeys;
        float dq[T::kDim / 2];
#pragma unroll
        for (float& x : dq) x = 0;
#pragma unroll 1
        for (int tile = view.tiles<T::kKeys>(job.first, job.first + T::kRows) - 1; tile >= 0; --tile) {
            float s[kPairs];
            float dp[kPairs];
            uint32_t ds[kSteps][4];
            wait_for_phase(address_of(&memory_.keys_filled[turn_.stage]), static_cast<int>(turn_.phase));
            multiply_rows(s, offsetof(Memory, queries), offsetof(Memory, keys));
            wait_for_phase(address_of(&memory_.values_filled[turn_.stage]), static_cast<int>(turn_.phase));
            multiply_rows(dp, offsetof(Memory, douts), offsetof(Memory, values));
            wait_for_products<1>();
            pin(s);
            if (far) {
#pragma unroll
                for (int i = 0; i < kPairs; ++i) s[i] = __fsub_rn(s[i], origin[i % 4 / 2]);
            }
#pragma unroll
            for (int i = 0; i < kPairs; ++i)
                s[i] = half_forward::power_of_2(__fmaf_rn(s[i], args_.all.log2_scale, -level[i % 4 / 2]));
            if (tile >= whole) {
#pragma unroll
                for (int i = 0; i < kPairs; ++i)
                    if (i / 4 * 8 + i % 2 >= seen[i % 4 / 2] - tile * T::kKeys) s[i] = 0;
            }
            wait_for_products<0>();
            pin(dp);
            release(address_of(&memory_.values_released[turn_.stage]));
#pragma unroll
            for (int i = 0; i < kPairs; ++i) dp[i] = __fmul_rn(s[i], __fsub_rn(dp[i], product[i % 4 / 2]));
            half_forward::pack_weights<Number>(ds, dp);
#pragma unroll
            for (int step = 0; step < kSteps; ++step) pin(ds[step]);
            pin(dq);
            begin_products();
            const ColumnDescriptor k = columns_.plus(offsetof(Memory, keys) + turn_.stage * T::kTileBytes);
#pragma unroll
            for (uint32_t step = 0; step < kSteps; ++step)
                Product<Number, T::kDim>::add(dq, ds[step], k.plus(step * 16 * T::kRowBytes));
            commit_products();
            wait_for_products<0>();
            pin(dq);
#pragma unroll
            for (int step = 0; step < kSteps; ++step) pin(ds[step]);
            release(address_of(&memory_.keys_released[turn_.stage]));
            turn_ = turn_.plus<T::kStages>(1);
        }
        arrive(address_of(&memory_.queries_released)); // by every thread, which has read the job
        const Operand& of = args_.all.dq;
        uint16_t* const head = static_cast<uint16_t*>(of.at) + job.batch * of.batch + job.head * of.head;
        half_forward::OutputRows to{{nullptr, nullptr}, args_.all.dim};
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (row + 8 * i < view.queries) to.row[i] = head + (row + 8 * i) * of.row;
        const float scale[2] = {args_.all.scale, args_.all.scale};
        half_forward::store_rows<GradientsOf<Number>>(dq, scale, to);
    }

    // 64 queries' rows times a tile of keys' rows.
    __device__ __forceinline__ void multiply_rows(float (&sums)[kPairs], uint32_t queries, uint32_t keys) {
        const RowDescriptor a = rows_.plus(queries + static_cast<uint32_t>(group_) * 64 * T::kRowBytes);
        const RowDescriptor b = rows_.plus(keys + turn_.stage * T::kTileBytes);
        begin_products();
        Product<Number, T::kKeys>::begin(sums, a, b);
#pragma unroll
        for (uint32_t step = 1; step < T::kDim / 16; ++step)
            Product<Number, T::kKeys>::add(sums, a.plus(step / 4 * T::kQueryPanel + step % 4 * 32),
                                           b.plus(step / 4 * T::kKeyPanel + step % 4 * 32));
        commit_products();
    }

    static __device__ __forceinline__ void release(SharedAddress barrier) {
        __syncwarp();
        if (is_elected()) arrive(barrier);
    }
};

template <class Number, class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    query_kernel(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                 const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap dout,
                 const __grid_constant__ QueryArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char block_memory[];
    auto& memory = *reinterpret_cast<QueryMemory<T>*>(block_memory);
    if (address_of(block_memory) % 1024 != 0) __trap(); // the swizzle counts from there
    if (threadIdx.x == 0) memory.init();
    __syncthreads();
    const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (group == T::kGroups) {
        give_registers_back<T::kCopierRegisters>();
        if (threadIdx.x == T::kGroups * kGroupThreads) copy_for_queries<T>(memory, q, k, v, dout, args);
    } else {
        take_registers<T::kGroupRegisters>();
        QueryGroup<Number, T>(memory, args, group).run();
    }
#else
    __trap();
#endif
}

template <class Number, class T>
void launch_query_kernel(const Args& args, int64_t most_blocks, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(QueryMemory<T>);
    static_assert(kBytes <= kBlockBytes);
    const half_forward::Args& forward = args.forward;
    const auto operand = [&](const Operand& from, int64_t rows, int64_t heads, int box_rows) {
        return half_forward::tensor_map(forward.type, from, forward.dim, rows, heads, forward.batches, box_rows);
    };
    const CUtensorMap q = operand(forward.q, forward.queries, forward.heads, T::kRows);
    const CUtensorMap k = operand(forward.k, forward.keys, forward.kv_heads, T::kKeys);
    const CUtensorMap v = operand(forward.v, forward.keys, forward.kv_heads, T::kKeys);
    const CUtensorMap dout = operand(args.dout, forward.queries, forward.heads, T::kRows);
    const QueryArgs query_args{KernelArgs(args, T::kKeys), half_forward::Work(forward, T::kRows, T::kRows)};
    const auto kernel = query_kernel<Number, T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int64_t blocks = std::min<int64_t>(query_args.work.jobs, most_blocks);
    kernel<<<static_cast<unsigned>(blocks), T::kThreads, kBytes, stream>>>(q, k, v, dout, query_args);
    HW4_CUDA_LAUNCHED("query_kernel");
}

} // namespace hw4::gpu::half_backward
