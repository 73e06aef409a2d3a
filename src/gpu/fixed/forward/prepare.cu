// The pre-pass: turns K and V of every tile of keys into digits, in the order in which the next kernel copies them.
#include "src/gpu/fixed/forward/prepare.h"

#include <algorithm>

#include "src/gpu/common/handover.cuh"
#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/fixed/forward/card_plan.h"
#include "src/gpu/fixed/forward/digits.cuh"
#include "src/gpu/fixed/forward/elements.cuh"

namespace hw4::gpu::fixed_point {

// ---- A team of threads turns a tile of K or of V into digits: rows to registers, their largest number, planes of
// digits to global memory.

// Threads of a team, which prepares a tile of K or of V: a thread has the same number of values in registers under both
// contracts. A block has one team or several.
template <class Rules, int kDim>
constexpr int kThreadsFor = Rules::kTileKeys > 64 && kDim > 64 ? 512 : 256;

template <int kThreads>
__device__ __forceinline__ int thread_of_team() {
    return static_cast<int>(threadIdx.x) % kThreads;
}

template <int kThreads>
__device__ __forceinline__ void sync_team() {
    asm volatile("bar.sync %0, %1;" ::"r"(uniform(threadIdx.x / uint32_t{kThreads})), "n"(kThreads) : "memory");
}

// The maximum of all threads' values, which are non-negative, for every thread. Called once for a tile.
template <int kValues, int kWarps>
__device__ __forceinline__ void find_largest_of_team(float (&values)[kValues], float (*shared)[kWarps]) {
    constexpr int kThreads = kWarps * 32;
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
        const float of_warp = warp_max_of_magnitudes(values[i]);
        if (threadIdx.x % 32 == 0) shared[i][thread_of_team<kThreads>() / 32] = of_warp;
    }
    sync_team<kThreads>();
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] = warp_max_of_magnitudes(shared[i][threadIdx.x % kWarps]);
}

// Rows of a matrix, at most a tile of them.
template <class Stored>
struct RowsOf {
    const Stored* first;
    size_t stride;
    int count;
    int dim;
};

// The data that kThreads threads have fetched, kEach pieces of rows each.
template <class Stored, int kEach, int kThreads>
struct Fetched {
    Four<Stored> pieces[kEach][kThreads];

    __device__ __forceinline__ Four<Stored>* at(int i) { return &pieces[i][thread_of_team<kThreads>()]; }
};

// A tile's rows of a matrix: a thread has four columns of every kRowsAtOnce-th row; with two digits, of two adjacent
// rows, so that their digits form a word.
template <class Rules, int kDim>
struct TileOfFloats {
    static constexpr int kTileKeys = Rules::kTileKeys;
    static constexpr int kThreads = kThreadsFor<Rules, kDim>;
    static constexpr int kTogether = Rules::kDigits == 2 ? 2 : 1;
    static constexpr int kGroups = kDim / 4; // in a row
    static constexpr int kEach = kTileKeys * kGroups / kThreads;
    static constexpr int kRowsAtOnce = kThreads / kGroups;
    float4 x[kEach];

    static __device__ int row(int i) {
        return kTogether * (thread_of_team<kThreads>() / kGroups + i / kTogether * kRowsAtOnce) + i % kTogether;
    }
    static __device__ int column() { return thread_of_team<kThreads>() % kGroups * 4; }

    // Loads elements of the type ElementType.
    template <class ElementType>
    __device__ __forceinline__ void load(const RowsOf<typename ElementType::Stored>& rows) {
        if (is_whole(rows)) {
#pragma unroll
            for (int i = 0; i < kEach; ++i) x[i] = ElementType::floats(four_at(row_at(rows, i), column()));
        } else {
#pragma unroll
            for (int i = 0; i < kEach; ++i) x[i] = ElementType::floats(ragged_piece(rows, i));
        }
    }

    // The same for rows of kDim columns in two steps, through the thread's own places in shared memory. Missing rows
    // become zeros, also by a copy: storing them would wait for the copies.
    template <class Stored>
    static __device__ __forceinline__ void fetch(const RowsOf<Stored>& rows, Fetched<Stored, kEach, kThreads>& to) {
#pragma unroll
        for (int i = 0; i < kEach; ++i)
            copy_async<sizeof(Four<Stored>)>(to.at(i), row_at(rows, i) + column(), row(i) < rows.count);
        end_group_of_copies();
    }
    template <class ElementType>
    __device__ __forceinline__ void take(Fetched<typename ElementType::Stored, kEach, kThreads>& from) {
        wait_for_copies<0>();
#pragma unroll
        for (int i = 0; i < kEach; ++i) x[i] = ElementType::floats(*from.at(i));
    }

    __device__ float largest() const {
        float most = 0;
#pragma unroll
        for (const float4& four : x) most = larger_magnitude(four, most);
        return most;
    }

    // An upper bound of every row's sum of squares. A row's groups are adjacent; if it is two warps wide, each half
    // counts twice.
    __device__ float largest_square() const {
        constexpr int kLanes = kGroups < 32 ? kGroups : 32;
        float most = 0;
#pragma unroll
        for (const float4& four : x) {
            float sum = added_squares(four, 0);
#pragma unroll
            for (int lanes = 1; lanes < kLanes; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
            most = fmaxf(most, sum);
        }
        return most * (kGroups / kLanes);
    }

    // The place of a piece in a plane. The swizzle repeats after kSwizzleRows, so that all pieces are at constant
    // distances from the first ones.
    static __device__ __forceinline__ int place(int i) {
        constexpr bool kRepeats = kTogether * kRowsAtOnce % kSwizzleRows == 0;
        const int like = kRepeats ? i % kTogether : i;
        return swizzled<kDim>(row(like), column()) + (row(i) - row(like)) * kDim;
    }

private:
    template <class Stored>
    static __device__ __forceinline__ bool is_whole(const RowsOf<Stored>& rows) {
        return rows.count == kTileKeys && rows.dim == kDim;
    }

    template <class Stored>
    static __device__ __forceinline__ const Stored* row_at(const RowsOf<Stored>& rows, int i) {
        const Stored* const of_thread = rows.first + static_cast<size_t>(row(0)) * rows.stride;
        return of_thread + static_cast<size_t>(row(i) - row(0)) * rows.stride;
    }

    // A piece, with zeros for rows and columns that do not exist.
    template <class Stored>
    static __device__ __forceinline__ Four<Stored> ragged_piece(const RowsOf<Stored>& rows, int i) {
        if (row(i) >= rows.count) return {};
        return four_columns(row_at(rows, i), column(), rows.dim, rows.dim % 4 == 0);
    }
};

// Directly to global memory: four columns of a row are a word of each plane, and adjacent threads write a row.
template <class Rules, int kDim>
__device__ void keys_to_planes(const TileOfFloats<Rules, kDim>& k, fixed::Factors scale, unsigned char* tile) {
    const auto digits = [&](float n) { return biased_digits_at<Rules::kDigits>(n, scale); };
#pragma unroll
    for (int i = 0; i < k.kEach; ++i)
        planes_of<Rules::kDigits>(k.x[i], digits).store(tile + k.place(i), TileLayout<Rules, kDim>::kPlane);
}

// A tile's numbers on the way from rows to columns, as words of biased digits: three digits take a word, two digits of
// two adjacent rows share one.
template <class Rules, int kDim>
struct ValueWords {
    static constexpr int kOfWord = TileOfFloats<Rules, kDim>::kTogether;
    uint32_t words[Rules::kTileKeys / kOfWord][kDim + 1];

    __device__ __forceinline__ void put(const TileOfFloats<Rules, kDim>& v, int i, fixed::Factors scale) {
        const auto digits = [&](float n) { return biased_digits_at<Rules::kDigits>(n, scale); };
        uint32_t* const to = words[v.row(i) / kOfWord] + v.column();
        const float* const x = &v.x[i].x;
        const float* const next = &v.x[i + kOfWord - 1].x;
#pragma unroll
        for (int column = 0; column < 4; ++column)
            to[column] =
                kOfWord == 1 ? digits(x[column]) : __byte_perm(digits(x[column]), digits(next[column]), 0x5410);
    }

    // The digits of keys `key`, `key + 1`, and the two keys 8 further on.
    __device__ __forceinline__ Planes<Rules::kDigits> take(int key, int column) const {
        if constexpr (kOfWord == 1)
            return planes_of_biased<3>(words[key][column], words[key + 1][column], words[key + 8][column],
                                       words[key + 9][column]);
        const uint32_t a = words[key / 2][column];
        const uint32_t b = words[key / 2 + 4][column];
        Planes<Rules::kDigits> planes{};
        planes.word[0] = __byte_perm(a, b, 0x6420) ^ 0x80808080u;
        planes.word[1] = __byte_perm(a, b, 0x7531) ^ 0x80808080u;
        return planes;
    }
};

// Through shared memory, since V's rows become columns: then packs four keys' digits into a word for each place.
template <class Rules, int kDim>
__device__ void values_to_planes(const TileOfFloats<Rules, kDim>& v, fixed::Factors scale,
                                 ValueWords<Rules, kDim>& values, unsigned char* tile) {
    using Layout = TileLayout<Rules, kDim>;
#pragma unroll
    for (int i = 0; i < v.kEach; i += v.kTogether) values.put(v, i, scale);
    sync_team<v.kThreads>();
    constexpr int kWords = Rules::kTileKeys / 4; // in a row
    constexpr int kAtOnce = v.kThreads / kWords; // rows
    static_assert(kAtOnce % kSwizzleRows == 0 && Layout::kColumns % kAtOnce == 0, "rows lie at constant distances");
    const int first = thread_of_team<v.kThreads>() / kWords;
    const int place = thread_of_team<v.kThreads>() % kWords * 4;
    const int key = (place & ~15) + (place & 15) / 2;
    unsigned char* const to = tile + Layout::kValues + swizzled<Rules::kTileKeys>(first, place);
#pragma unroll
    for (int row = 0; row < kDim; row += kAtOnce)
        values.take(key, first + row)
            .store(to + row / Layout::kColumns * Layout::kPart + row % Layout::kColumns * Rules::kTileKeys,
                   Layout::kPartPlane);
}

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

// The numbers are non-negative, so they are ordered like their bits.
__device__ __forceinline__ void raise(float& largest, float to) {
    atomicMax(reinterpret_cast<unsigned*>(&largest), bits_of(to));
}

// Consecutive heads of K and V.
struct HeadRun {
    uint32_t first;
    uint32_t count;
};

// The arguments of all blocks of a launch.
struct PrepareArgs {
    ForwardArgs of;
    Facts facts;
    Prepared to;
    Divisor tiles;      // in a head
    HeadRun run;        // the heads of this launch
    ReadyHalves* ready; // of each head, if blocks wait for them
};

// The work of a team at a time: K or V of a tile.
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

// A team turns a half into digits.
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

// Announces that `halves` more halves of a head's tiles are ready, when the whole team has arrived.
template <int kThreads>
__device__ __forceinline__ void announce(const PrepareArgs& args, uint32_t head, uint32_t halves) {
    if (thread_of_team<kThreads>() == 0) add_release(args.ready + head, halves);
}

// The number of threads on a multiprocessor.
#if __CUDA_ARCH__ == 750
constexpr int kMostThreads = 1024;
#elif __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
constexpr int kMostThreads = 2048;
#else
constexpr int kMostThreads = 1536;
#endif

// The least number of blocks per multiprocessor, for as many loads in flight as the registers hold.
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
    announce<kThreadsFor<Rules, kDim>>(args, half.head, 1);
}

// One block per multiprocessor, with no space left there for a block of the next kernel. Its teams take a tile of K and
// a tile of V in turn; while a team prepares one, the next is fetched.
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
    // A team takes kRun adjacent halves at a time: announcing each one would take as long as preparing it, since all
    // its data must be visible first.
    constexpr uint32_t kRun = 4;
    const uint32_t halves = 2 * args.run.count * args.tiles.number();
    const uint32_t teams = gridDim.x * kTeams;
    const auto half = [&](uint32_t i) { return HalfTile::of(args, i / 2, i % 2 != 0); };
    const auto after = [&](uint32_t i) { return i + 1 + ((i + 1) % kRun == 0 ? (teams - 1) * kRun : 0); };
    Rows rows;
    HalfTile now{};      // the half of the current rows
    uint32_t untold = 0; // finished halves of that head that are not yet announced
    uint32_t at = halves;
    for (uint32_t next = (blockIdx.x * kTeams + team) * kRun;; next = after(next)) {
        const HalfTile coming = half(next < halves ? next : at);
        if (next < halves) Rows::fetch(coming.template rows<Rules, Stored>(args.of), memory.next);
        if (at < halves) {
            prepare_half(args, now, rows, memory.of_half);
            sync_team<Rows::kThreads>();
            ++untold;
            if (next != at + 1 || coming.head != now.head) {
                announce<Rows::kThreads>(args, now.head, untold);
                untold = 0;
            }
        }
        if (next >= halves) break;
        at = next;
        now = coming;
        rows.template take<ElementType>(memory.next);
    }
    if (untold > 0) announce<Rows::kThreads>(args, now.head, untold);
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
    if (!kMayPrepareBeside<Rules, kDim> || args.of.dim != kDim) // otherwise the next kernel would wait for ever
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
    auto* const first = reinterpret_cast<unsigned char*>(to.heads); // the first of the facts that are raised from 0
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
