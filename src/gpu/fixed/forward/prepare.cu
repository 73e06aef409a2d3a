// The pre-pass: K and V of every tile of keys to digits, in the order in which the next kernel copies them.
#include "src/gpu/fixed/forward/prepare.h"

#include <algorithm>

#include "src/gpu/common/handing_on.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/fixed/forward/card_plan.h"
#include "src/gpu/fixed/forward/prepared_tile.cuh"

namespace hw4::gpu::fixed_point {
namespace {

template <class Rules, int kDim>
struct PrepareMemory {
    ValueWords<Rules, kDim> values;
    float reduction[2][kThreadsFor<Rules, kDim> / 32];
};

__device__ __forceinline__ void add_above(ExponentRange& range, int exponent) {
    atomicMax(&range.above, ExponentRange::of(exponent).above);
}
__device__ __forceinline__ void add_below(ExponentRange& range, int exponent) {
    atomicMax(&range.below, ExponentRange::of(exponent).below);
}

// None of them is negative, so they are ordered like their bits.
__device__ __forceinline__ void raise(float& largest, float to) {
    atomicMax(reinterpret_cast<unsigned*>(&largest), bits_of(to));
}

// Some heads of K and V, one after the other.
struct HeadRun {
    uint32_t first;
    uint32_t count;
};

// What all blocks of a launch have to know.
struct PrepareArgs {
    ForwardArgs of;
    Facts facts;
    Prepared to;
    Divisor tiles;      // of a head
    HeadRun run;        // by this launch
    ReadyHalves* ready; // of each head, where a block waits for them
};

// What a team does at a time: K or V of a tile.
struct HalfTile {
    uint32_t head;
    uint32_t tile; // of the head
    bool values;

    // The tiles of a launch's heads are counted one after the other.
    static __device__ __forceinline__ HalfTile of(const PrepareArgs& args, uint32_t tile_of_run, bool values) {
        const uint32_t head = args.tiles.quotient(tile_of_run);
        return {args.run.first + head, tile_of_run - head * args.tiles.number(), values};
    }

    template <class Rules, class Stored>
    __device__ __forceinline__ RowsOf<Stored> rows(const ForwardArgs& args) const {
        const Heads<const float>& matrix = values ? args.v : args.k;
        const int64_t first = int64_t{tile} * Rules::kTileKeys;
        return {matrix.as<const Stored>().of(head) + static_cast<size_t>(first) * matrix.row, matrix.row,
                static_cast<int>(min(int64_t{Rules::kTileKeys}, args.keys - first)), args.dim};
    }
};

// To digits, by a team.
template <class Rules, int kDim>
__device__ __forceinline__ void prepare_half(const PrepareArgs& args, const HalfTile& half,
                                             const TileOfFloats<Rules, kDim>& rows,
                                             PrepareMemory<Rules, kDim>& memory) {
    using Layout = TileLayout<Rules, kDim>;
    constexpr int kThreads = kThreadsFor<Rules, kDim>;
    unsigned char* const image =
        args.to.tiles + (size_t{half.head} * args.tiles.number() + half.tile) * Layout::kStride;
    auto* const scales = reinterpret_cast<TileScales*>(image + Layout::kScales);
    HeadFacts& facts = args.to.heads[half.head];
    const bool first_thread = thread_of_team<kThreads>() == 0;
    if (half.values) {
        float most[] = {rows.largest()};
        find_largest_of_team(most, memory.reduction);
        const int exponent = fixed::exponent_of_tile<Rules::kDigits>(most[0]);
        if (first_thread) {
            scales->v_exponent = exponent;
            add_below(facts.v, exponent);
            if (args.facts == Facts::all) add_above(facts.v, exponent);
        }
        values_to_planes(rows, fixed::tile_factors(exponent), memory.values, image);
    } else {
        float most[] = {rows.largest(), Rules::kNeedsLengths ? rows.largest_square() : 0.0f};
        find_largest_of_team(most, memory.reduction);
        const int exponent = fixed::exponent_of_tile<Rules::kDigits>(most[0]);
        if (first_thread) {
            scales->k_exponent = exponent;
            scales->unused = 0;
            if (Rules::kNeedsLengths) raise(facts.longest_key, length_bound(most[1]));
            if (args.facts == Facts::all) {
                add_below(facts.k, exponent);
                add_above(facts.k, exponent);
            }
        }
        keys_to_planes(rows, fixed::tile_factors(exponent), image);
    }
}

// So many of a head's halves of tiles are ready, when all of the team have come here.
template <int kThreads>
__device__ __forceinline__ void tell(const PrepareArgs& args, uint32_t head, uint32_t halves) {
    if (thread_of_team<kThreads>() == 0) add_release(args.ready + head, halves);
}

// What a multiprocessor has room for.
#if __CUDA_ARCH__ == 750
constexpr int kMostThreads = 1024;
#elif __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
constexpr int kMostThreads = 2048;
#else
constexpr int kMostThreads = 1536;
#endif

// The least number of blocks on a multiprocessor, for as many numbers on their way from memory as registers have room
// for.
template <class Rules, int kDim>
constexpr int kBlocksFor = std::min(kMostThreads, TileOfFloats<Rules, kDim>::kEach > 8   ? 512
                                                  : TileOfFloats<Rules, kDim>::kEach > 4 ? 1280
                                                                                         : 2048) /
                           kThreadsFor<Rules, kDim>;

// A block for each tile of K, and one for each tile of V.
template <class Rules, int kDim, class ElementType>
__global__ void __launch_bounds__(kThreadsFor<Rules, kDim>, kBlocksFor<Rules, kDim>)
    prepare_kernel(const __grid_constant__ PrepareArgs args) {
    extern __shared__ __align__(16) unsigned char prepare_memory[];
    let_next_kernel_start();
    const HalfTile half = HalfTile::of(args, blockIdx.x / 2, blockIdx.x % 2 != 0);
    TileOfFloats<Rules, kDim> rows;
    rows.template load<ElementType>(half.rows<Rules, typename ElementType::Stored>(args.of));
    prepare_half(args, half, rows, *reinterpret_cast<PrepareMemory<Rules, kDim>*>(prepare_memory));
    if (args.ready == nullptr) return;
    __syncthreads();
    tell<kThreadsFor<Rules, kDim>>(args, half.head, 1);
}

// A block to a multiprocessor, with no room there for one of the next kernel. Its teams take a tile of K and one of V
// in turn; while a team prepares one, the next comes.
template <class Rules, int kDim, class Stored>
struct TeamMemory {
    Fetched<Stored, TileOfFloats<Rules, kDim>::kEach, kThreadsFor<Rules, kDim>> next;
    PrepareMemory<Rules, kDim> of_half;
};
template <class Rules, int kDim, class Stored>
constexpr int kTeamsBeside = std::min<int>(1024 / kThreadsFor<Rules, kDim>,
                                           227 * 1024 / sizeof(TeamMemory<Rules, kDim, Stored>));

template <class Rules, int kDim, class ElementType, class Stored = typename ElementType::Stored>
__global__ void __launch_bounds__(kTeamsBeside<Rules, kDim, Stored>* kThreadsFor<Rules, kDim>, 1)
    prepare_beside_kernel(const __grid_constant__ PrepareArgs args) {
    using Rows = TileOfFloats<Rules, kDim>;
    constexpr uint32_t kTeams = kTeamsBeside<Rules, kDim, Stored>;
    extern __shared__ __align__(16) unsigned char prepare_memory[];
    const uint32_t team = uniform(threadIdx.x / Rows::kThreads);
    auto& memory = reinterpret_cast<TeamMemory<Rules, kDim, Stored>*>(prepare_memory)[team];
    let_next_kernel_start();
    // A team takes kRun neighbours at a time: to tell of each would take as long as to prepare it, since it has to be
    // seen by all before.
    constexpr uint32_t kRun = 4;
    const uint32_t halves = 2 * args.run.count * args.tiles.number();
    const uint32_t teams = gridDim.x * kTeams;
    const auto half = [&](uint32_t i) { return HalfTile::of(args, i / 2, i % 2 != 0); };
    const auto after = [&](uint32_t i) { return i + 1 + ((i + 1) % kRun == 0 ? (teams - 1) * kRun : 0); };
    Rows rows;
    HalfTile now{};      // that rows are of
    uint32_t untold = 0; // halves of that head
    uint32_t at = halves;
    for (uint32_t next = (blockIdx.x * kTeams + team) * kRun;; next = after(next)) {
        const HalfTile coming = half(next < halves ? next : at);
        if (next < halves) Rows::fetch(coming.template rows<Rules, Stored>(args.of), memory.next);
        if (at < halves) {
            prepare_half(args, now, rows, memory.of_half);
            sync_team<Rows::kThreads>();
            ++untold;
            if (next != at + 1 || coming.head != now.head) {
                tell<Rows::kThreads>(args, now.head, untold);
                untold = 0;
            }
        }
        if (next >= halves) break;
        at = next;
        now = coming;
        rows.template take<ElementType>(memory.next);
    }
    if (untold > 0) tell<Rows::kThreads>(args, now.head, untold);
    wait_for_kernel_before();
}

template <class Rules, int kDim, class ElementType>
void launch_for(PrepareArgs args, const Prepass& prepass, cudaStream_t stream) {
    const auto kernel = prepare_kernel<Rules, kDim, ElementType>;
    constexpr size_t kBytes = sizeof(PrepareMemory<Rules, kDim>);
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    args.run = {0, prepass.heads_before};
    const int64_t blocks = int64_t{2} * args.run.count * args.tiles.number();
    kernel<<<static_cast<unsigned>(blocks), kThreadsFor<Rules, kDim>, kBytes, stream>>>(args);
    HW4_CUDA_LAUNCHED("prepare_kernel");
    if (prepass.multiprocessors == 0) return;
    if (!kMayPrepareBeside<Rules, kDim> || args.of.dim != kDim) // or the next kernel would wait for ever
        throw Error(ExitCode::internal, "heads of other columns are not prepared beside others");
    if constexpr (kMayPrepareBeside<Rules, kDim>) {
        using Stored = typename ElementType::Stored;
        constexpr int kTeams = kTeamsBeside<Rules, kDim, Stored>;
        constexpr size_t kWhole = 168 * 1024; // leaves too little for any block of the next kernel
        constexpr size_t kBesideBytes = std::max(kTeams * sizeof(TeamMemory<Rules, kDim, Stored>), kWhole);
        const auto beside = prepare_beside_kernel<Rules, kDim, ElementType>;
        HW4_CUDA(cudaFuncSetAttribute(beside, cudaFuncAttributeMaxDynamicSharedMemorySize, kBesideBytes));
        args.run = {prepass.heads_before, args.of.kv_units() - prepass.heads_before};
        launch_early("launch of prepare_beside_kernel", beside, static_cast<unsigned>(prepass.multiprocessors),
                     kTeams * kThreadsFor<Rules, kDim>, kBesideBytes, stream, args);
    }
}

template <class Rules, int kDim>
void launch(const PrepareArgs& args, const Prepass& prepass, cudaStream_t stream) {
    if constexpr (Rules::kTakesNarrow) {
        if (args.of.element == Element::bf16)
            return launch_for<Rules, kDim, NarrowElement<Bf16>>(args, prepass, stream);
        if (args.of.element == Element::fp16)
            return launch_for<Rules, kDim, NarrowElement<Fp16>>(args, prepass, stream);
    }
    return launch_for<Rules, kDim, Float32Element>(args, prepass, stream);
}

} // namespace

template <class Rules>
Prepared launch_prepare(const ForwardArgs& of, Facts facts, size_t cleared_bytes, const Prepass& prepass,
                        cudaStream_t stream) {
    const Prepared to = prepared_at<Rules>(of.scratch, of.kv_units(), of.keys, of.dim);
    auto* const first = reinterpret_cast<unsigned char*>(to.heads); // of what is raised from 0
    HW4_CUDA(cudaMemsetAsync(first, 0, static_cast<size_t>(to.end - first) + cleared_bytes, stream));
    const Divisor tiles(static_cast<uint32_t>(tiles_of<Rules>(of.keys)));
    const bool beside = prepass.multiprocessors > 0;
    const PrepareArgs args{of, facts, to, tiles, {}, beside ? reinterpret_cast<ReadyHalves*>(to.end) : nullptr};
    switch (padded_columns(of.dim)) {
    case 32: launch<Rules, 32>(args, prepass, stream); break;
    case 64: launch<Rules, 64>(args, prepass, stream); break;
    case 128: launch<Rules, 128>(args, prepass, stream); break;
    default: launch<Rules, 256>(args, prepass, stream);
    }
    return to;
}

template Prepared launch_prepare<ThreeDigits>(const ForwardArgs&, Facts, size_t, const Prepass&, cudaStream_t);
template Prepared launch_prepare<TwoDigits>(const ForwardArgs&, Facts, size_t, const Prepass&, cudaStream_t);

} // namespace hw4::gpu::fixed_point
