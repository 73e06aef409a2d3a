// wgmma_again: a step to wgmma_bf16_gradients, with dQ by a kernel of its own.
//
// Idea      One kernel for dK and dV, whose blocks keep keys; one for dQ, whose blocks keep queries. Both compute S and
// dP: seven products for five, but no sums in memory, and no block waits for another.
#include "src/gpu/half/backward/args.h"
#include "src/gpu/half/backward/wgmma_kernel.cuh"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu::half_backward {

// ---- dQ by a kernel of its own: a block of queries stays, tiles of keys pass by, from the last to the first. S and dP
// are computed once more; no block waits for another.

constexpr int kBlockQueries = 128;

template <int kDim_, int kKeys_>
struct QueryVariant : Panels<kDim_, kBlockQueries, kKeys_> {
    static constexpr int kDim = kDim_;
    static constexpr int kKeys = kKeys_; // of a tile
    static constexpr int kRows = kBlockQueries;
    static constexpr int kGroups = kRows / 64;
    static constexpr int kStages = 2;
    static constexpr int kThreads = (kGroups + 1) * kGroupThreads;
    static constexpr int kReaders = kGroups * kGroupThreads;
    static constexpr int kWarps = kReaders / kWarpSize;
    static constexpr int kCopierRegisters = 40;
    static constexpr int kGroupRegisters = 232;
};

template <class T>
struct QueryMemory {
    alignas(1024) unsigned char queries[T::kQueryBytes];
    unsigned char douts[T::kQueryBytes];
    unsigned char keys[T::kStages][T::kKeyBytes];
    unsigned char values[T::kStages][T::kKeyBytes];
    uint64_t queries_filled;
    uint64_t queries_released;
    uint64_t keys_filled[T::kStages];
    uint64_t keys_released[T::kStages];
    uint64_t values_filled[T::kStages];
    uint64_t values_released[T::kStages];
    uint32_t job;

    __device__ void init_barriers() {
        init_stage(queries_filled, queries_released, T::kReaders);
        for (int i = 0; i < T::kStages; ++i) {
            init_stage(keys_filled[i], keys_released[i], T::kWarps);
            init_stage(values_filled[i], values_released[i], T::kWarps);
        }
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
                expect_bytes(address_of(&full), T::kKeyBytes);
                copy_panels<T::kPanels, T::kKeyPanel>(address_of(to), map, tile * T::kKeys, kv_head, batch,
                                                      address_of(&full));
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
            arrive_by_warp(address_of(&memory_.values_released[turn_.stage]));
#pragma unroll
            for (int i = 0; i < kPairs; ++i) dp[i] = __fmul_rn(s[i], __fsub_rn(dp[i], product[i % 4 / 2]));
            half_forward::pack_weights<Number>(ds, dp);
#pragma unroll
            for (int step = 0; step < kSteps; ++step) pin(ds[step]);
            pin(dq);
            begin_products();
            const ColumnDescriptor k = columns_.plus(offsetof(Memory, keys) + turn_.stage * T::kKeyBytes);
#pragma unroll
            for (uint32_t step = 0; step < kSteps; ++step)
                Product<Number, T::kDim>::add(dq, ds[step], k.plus(step * 16 * T::kRowBytes));
            commit_products();
            wait_for_products<0>();
            pin(dq);
#pragma unroll
            for (int step = 0; step < kSteps; ++step) pin(ds[step]);
            arrive_by_warp(address_of(&memory_.keys_released[turn_.stage]));
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
        const RowDescriptor b = rows_.plus(keys + turn_.stage * T::kKeyBytes);
        begin_products();
        Product<Number, T::kKeys>::begin(sums, a, b);
#pragma unroll
        for (uint32_t step = 1; step < T::kDim / 16; ++step)
            Product<Number, T::kKeys>::add(sums, a.plus(step / 4 * T::kQueryPanel + step % 4 * 32),
                                           b.plus(step / 4 * T::kKeyPanel + step % 4 * 32));
        commit_products();
    }
};

template <class Number, class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    query_kernel(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                 const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap dout,
                 const __grid_constant__ QueryArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    auto& memory = memory_of_block<QueryMemory<T>>();
    if (threadIdx.x == 0) prepare_block(memory);
    __syncthreads();
    const int group = begin_group<T>();
    if (group == T::kGroups) {
        if (threadIdx.x == T::kGroups * kGroupThreads) copy_for_queries<T>(memory, q, k, v, dout, args);
    } else {
        QueryGroup<Number, T>(memory, args, group).run();
    }
#else
    __trap();
#endif
}

template <class Number, class T>
void launch_query_kernel(const Args& args, int64_t most_blocks, cudaStream_t stream) {
    const half_forward::Args& forward = args.forward;
    const QueryArgs query_args{KernelArgs(args, T::kKeys), half_forward::Work(forward, T::kRows, T::kRows)};
    launch_blocks<T, QueryMemory<T>>("launch of query_kernel", query_kernel<Number, T>, query_args.work.jobs,
                                     most_blocks, stream, query_map(forward, forward.q, T::kRows),
                                     key_map(forward, forward.k, T::kKeys), key_map(forward, forward.v, T::kKeys),
                                     query_map(forward, args.dout, T::kRows), query_args);
}

namespace {

template <class Sizes, int kTileKeys>
void launch_again_for(const Args& args, int64_t blocks, cudaStream_t stream) {
    launch_gradient_kernel<Bf16, Variant<Sizes, Queries::none>>(args, blocks, stream);
    launch_query_kernel<Bf16, QueryVariant<Sizes::kDim, kTileKeys>>(args, blocks, stream);
}

} // namespace

size_t wgmma_again_bytes(int64_t dim) {
    return dim <= 64 ? sizeof(BlockMemory<Variant<Sizes64, Queries::none>>)
                     : sizeof(QueryMemory<QueryVariant<128, 128>>);
}

void launch_wgmma_again(const Args& args, const Device& device, cudaStream_t stream) {
    prepare_rows(args, stream);
    if (args.forward.dim <= 64)
        launch_again_for<Sizes64, 128>(args, device.multiprocessors, stream);
    else
        launch_again_for<Sizes128, 128>(args, device.multiprocessors, stream);
}

} // namespace hw4::gpu::half_backward
