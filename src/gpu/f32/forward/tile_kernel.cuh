// The kernel of the upper rungs: register tiles, both products as outer products from transposed shared memory. The
// rungs differ in their Choices: Lanes, the placement of lanes; Work, the tiles of a block; kAsync, tiles copied
// asynchronously; kAhead, operands loaded a step ahead; kWoven, copies spread over the arithmetic, loops unrolled
// and peeled as measured; kView, which keys the rows see.
//
// A map. A block has some query rows and goes over their keys in tiles of 64, which are the contract's segments:
//
//                 64 keys                        d columns
//               +---------+                    +-----------+
//        query  | scores  | -> weights, in --> |  output   |    a thread has 8 x 8 (or 8 x 4) of either, in registers;
//        rows   |  Q K^T  |    shared memory   | weights V |    the output takes the registers that the scores leave
//               +---------+                    +-----------+
//
//        step of a tile                                                  where
//        which rows and keys: a piece of a row of tiles                  tile_pieces.cuh, tile_queue.h
//     1  Q (once), K and V to shared memory, Q and K transposed          tile_copies.cuh
//     2  scores: an outer product for each column                        score(), of chains in register_tile.cuh
//     3  scores to weights, their sums, weights to shared memory         tile_weights.cuh
//     4  output: an outer product for each key, added to totals          add_products(), of the same chains
//        the end of the piece: result, or registers for another block    finish(), common/handover.cuh
//        which rows a block takes, and how many blocks                   row_blocks(), tile_queue.h
//
//        and from kAsync on, with | a barrier of the block:
//
//        | scores of tile n, weights | output of tile n            | scores of tile n + 1 ...
//        |  V of tile n is copied    |  K of tile n + 1 is copied  |  V of tile n + 1 is copied
//
// Under the causal mask the last tile of most pieces is the corner (CornerRows): fewer scores and products. Short rows
// run through all code of a piece again and again, so that code has to fit the instruction cache.
//
// Totals leave their registers only between pieces. The contract's M is 0, and its clamp does nothing, while a row's
// scores stay between -120 and 72 and its first tile's largest is at least -8. So a block tracks no maximum until one
// of its rows starts below -7 or has a score beyond +-71. It then repeats that tile and computes the rest of the piece
// with a reference for each row (row_references.cuh), which takes up to a fifth longer. So does a block with a window
// in which some rows see nothing of the first 32 keys: these rows have no reference yet.
#pragma once

#include <type_traits>

#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/register_tile.cuh"
#include "src/gpu/f32/forward/row_references.cuh"
#include "src/gpu/f32/forward/tile_copies.cuh"
#include "src/gpu/f32/forward/tile_pieces.cuh"
#include "src/gpu/f32/forward/tile_queue.h"
#include "src/gpu/f32/kernels.h"

namespace hw4::gpu {

// A step of the output is a key: a are its weights, b columns of V.
template <class T, int kFirst = 0>
struct OutputSteps {
    static __device__ __forceinline__ constexpr int a(int u) { return 4 * weight_offset(u); }
    static __device__ __forceinline__ constexpr int b(int u) { return 4 * u * T::kDim; }
    static __device__ __forceinline__ void load(Fragments<T::kCT>& f, int slot, const Factors& from, int u) {
        load_floats(f.b[slot], from.b + b(u), kSecondPlaces);
        load_floats(f.a[slot], from.a + a(u), kSecondRows);
    }
    static __device__ __forceinline__ void multiply(float (&acc)[kRowsPerThread][T::kCT],
                                                    const float (&p)[kRowsPerThread], const float (&v)[T::kCT],
                                                    bool from_zero) {
        outer_by_rows<kFirst>(acc, p, v, from_zero);
    }
};

// The scores of the tile, or a part: blocks of 32 columns, added in order. before_block(n) starts asynchronous copies.
template <class T, class Choices, class Part = EveryRow, class BeforeBlock>
__device__ __forceinline__ void score(Scores<T>& s, Factors& at, BeforeBlock before_block) {
    constexpr bool kCorner = std::is_same_v<Part, CornerRows<T>>;         // once in a piece: short code
    constexpr bool kPeeled = Choices::kWoven && !kCorner && T::kDim > 32; // measured: it does not pay for 32
    // Under a mask there is more code in all, so this part is shorter (drawn_tiles.cu).
    constexpr int kUnroll = !kPeeled ? kRoundSteps : Choices::kView != View::all ? 32 / T::kKT : 16;
    Fragments<T::kKT> f;
    if (Choices::kAhead) ScoreSteps<T>::load(f, 0, at, 0);
#pragma unroll
    for (int n = 0; n < T::kDim / kScoreColumns; ++n) {
        float block[kRowsPerThread][T::kKT];
        before_block(n);
        if (!kPeeled) clear(block);
        chain<ScoreSteps<T, Part>, kUnroll, Choices::kAhead, kPeeled>(block, f, at,
                                                                      at.b + ScoreSteps<T>::b(kScoreColumns), [] {});
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
            for (int j = 0; j < T::kKT; ++j)
                if (i >= Part::from(j)) s[i][j] = n == 0 ? block[i][j] : s[i][j] + block[i][j];
    }
    rewind<ScoreSteps<T>>(at, T::kDim);
}

// The output of a tile's keys up to where the factors reach `end`. copy_rows(n) starts asynchronous copies of n rows.
template <class T, class Choices, int kFirst = 0, class CopyRows>
__device__ __forceinline__ void add_products(float (&o)[kRowsPerThread][T::kCT], Fragments<T::kCT>& f, Factors& at,
                                             SharedAddress end, CopyRows copy_rows) {
    constexpr int kRound = Choices::kWoven && T::kCT == 4 ? 16 : kRoundSteps;
    static_assert(kKeyTile % kRound == 0, "a round ends where the first 32 keys do");
    chain<OutputSteps<T, kFirst>, kRound, Choices::kAhead, false>(o, f, at, end, [&] { copy_rows(kRound); });
}

// Stores the thread's rows and columns of the result, and their sums if this thread has to store statistics. Under a
// mask a row that sees no key gets zeros.
template <class T, class Lanes, bool kMasked>
__device__ __forceinline__ void store_result(const float (&total)[kRowsPerThread][T::kCT], const RowSums& sums,
                                             const Position& at, int first_row, int first_column, const UnitMatrices& m,
                                             RowStatistics* statistics, const ForwardArgs& args) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
        const float l = closed<Lanes>(sums.lane[i]);
        const float inv = 1.0f / l;
        const int place = row_at_place<T, kMasked>(at.warp / T::kTeam * kWarpRows + row_of(at, i));
        const int row = first_row + place;
        if (row >= static_cast<int>(args.queries)) continue;
        const bool seeing = !kMasked || args.sight.of(row) > 0;
        if (statistics != nullptr) statistics[place].l = seeing ? l : 0.0f;
        const auto of_row = [&](float x) { return seeing ? result(x, inv) : 0.0f; };
        float* out = m.out + static_cast<size_t>(row) * args.out.row;
#pragma unroll
        for (int j = 0; j < T::kCT; j += 4) {
            const int column = first_column + place_of(at, j);
            if (T::kWhole) {
                *reinterpret_cast<float4*>(out + column) = make_float4(
                    of_row(total[i][j]), of_row(total[i][j + 1]), of_row(total[i][j + 2]), of_row(total[i][j + 3]));
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (column + e < args.dim) out[column + e] = of_row(total[i][j + e]);
            }
        }
    }
}

// Stores the references of the team's rows, if they are wanted: its first warp does it, a lane for each row. For blocks
// measured by zero they are 0, which the launch has already stored.
template <class T, bool kMasked>
__device__ __forceinline__ void store_references(const RowReferences<T>& references, const Position& at,
                                                 const Piece& piece, const ForwardArgs& args) {
    const int row = piece.first_row + row_at_place<T, kMasked>(at.warp / T::kTeam * kWarpRows + at.lane);
    if (at.warp % T::kTeam != 0 || row >= static_cast<int>(args.queries)) return;
    if (kMasked && args.sight.of(row) == 0) return; // it has no reference
    const Reference reference = references.of(at.lane);
    RowStatistics& told = args.statistics[piece.unit * args.statistics_unit + row];
    told.M = reference.M;
    told.origin = reference.origin;
}

template <class T>
struct alignas(16) TileMemory {
    // Each with spare steps: prefetching reads them, but no step uses them.
    float qt[T::kDim + kSpareSteps][T::kQStride];
    float kt[T::kDim + kSpareSteps][T::kKStride];
    float v[T::kKeys + kSpareSteps][T::kDim];
    float p[T::kTeams][kWeightFloats];
    alignas(16) WaitingSums<T> sums;
    alignas(16) float fours[T::kTeam > 1 ? T::kThreads : 1][kRowsPerThread]; // exchanged within a team of two
    RowReferences<T> references[T::kTeams];
    unsigned strayed; // not 0: some row left the range in a tile with weights measured by zero
    Draws draws;
};

// The end of a piece: stores the result of its rows, or the state from which another block continues.
template <class T, class Lanes, bool kMasked, class Work>
__device__ __forceinline__ void finish(const Running<T>& running, const RowSums& sums,
                                       const RowReferences<T>& references, const Piece& piece, const ForwardArgs& args,
                                       const Position& at, const Work& work) {
    const bool by_zero = running.measure == Measure::by_zero;
    if (!piece.is_last) {
        const Reference reference = by_zero ? reference_at(0.0f, args.scale) : references.of(at.lane);
        return work.leave(running, sums, reference, args, piece);
    }
    RowStatistics* statistics = nullptr; // of the block's first row
    if (args.statistics != nullptr) {
        if (at.warp % T::kTeam == 0 && at.across == 0)
            statistics = args.statistics + piece.unit * args.statistics_unit + piece.first_row;
        if (!by_zero) store_references<T, kMasked>(references, at, piece, args);
    }
    store_result<T, Lanes, kMasked>(running.total, sums, at, piece.first_row, at.warp % T::kTeam * T::kWarpColumns,
                                    matrices_of(args, piece.unit), statistics, args);
}

template <class T, class Choices>
__global__ __launch_bounds__(T::kThreads, T::kBlocks) void tile_kernel(const __grid_constant__ ForwardArgs args) {
#if __CUDA_ARCH__ >= 800
    using Lanes = typename Choices::Lanes;
    constexpr bool kAsync = Choices::kAsync;
    constexpr View kView = Choices::kView;
    constexpr bool kMasked = kView != View::all;
    extern __shared__ float4 memory[];
    using Work = typename Choices::template Work<T>;
    TileMemory<T>& shared = *reinterpret_cast<TileMemory<T>*>(memory);
    const Position at = position<Lanes>();
    const int team = at.warp / T::kTeam;
    const int part = at.warp % T::kTeam;
    const Rows q_rows = rows_of(args.q, args.queries, args.dim);
    const Rows k_rows = rows_of(args.k, args.keys, args.dim);
    const Rows v_rows = rows_of(args.v, args.keys, args.dim);
    Factors score_factors{address_of(&shared.qt[0][team * kWarpRows + 4 * at.down]),
                          address_of(&shared.kt[0][part * T::kWarpKeys + 4 * at.across])};
    Factors output_factors{address_of(&shared.p[team][4 * at.down]),
                           address_of(&shared.v[0][part * T::kWarpColumns + 4 * at.across])};
    const SharedAddress own_weights =
        address_of(&shared.p[team][weight_offset(part * T::kWarpKeys + 4 * at.across) + 4 * at.down]);

    if (threadIdx.x == 0) shared.strayed = 0;
    Work work(args, shared.draws);
    TransposedCopy<T, T::kKStride, kAsync> k_copy;
    const auto copy_beginning = [&] { // for the piece to do
        const Piece piece = work.piece(args);
        const UnitMatrices m = matrices_of(args, piece.unit);
        const Position at = position<Lanes>();
        TransposedCopy<T, T::kQStride, kAsync> q_copy(m.q, piece.first_row, &shared.qt[0][0], at);
        const int first_place = q_copy.row - piece.first_row;
#pragma unroll 1
        for (int n = 0; n < T::kRows; n += q_copy.kRowsAtOnce) {
            q_copy.row = piece.first_row + row_at_place<T, kMasked>(first_place + n);
            q_copy.next_rows(q_rows);
        }
        k_copy = {m.k, piece.first_key, &shared.kt[0][0], at};
        if (kAsync) k_copy.whole_tile(k_rows, T::kKeys);
    };
    if (work.any()) copy_beginning();

    while (work.any()) {
        finish_copies();
        __syncthreads(); // Q is complete, and the first K tile if it is copied ahead
        const Piece piece = work.piece(args);
        PlainCopy<T, kAsync> v_copy(matrices_of(args, piece.unit).v, piece.first_key, &shared.v[0][0],
                                    position<Lanes>());
        // Computed when needed, not kept in a register: most tiles do not need it.
        const auto references = [&]() -> RowReferences<T>& {
            return shared.references[position<Lanes>().warp / T::kTeam];
        };
        Running<T> running = {};
        RowSums sums = {};
        if (!kMasked && piece.first_key > 0) { // under a mask no piece continues another
            Reference reference{};
            work.go_on(running, sums, reference, args, piece);
            const bool measured = reference.M != 0.0f || reference.origin != 0.0f;
            running.measure = __syncthreads_or(measured) ? Measure::by_the_row : Measure::by_zero;
            if (part == 0) references().put(position<Lanes>().lane, reference);
            sync_team<T>(team);
        }
        if (T::kSumsWait) shared.sums.put(sums);

        const auto measure_by_the_row = [&] { // a row left the range in a tile that is repeated
            finish_copies();
            __syncthreads(); // all threads have read it, and are done with the weights
            const Position place = position<Lanes>();
            if (place.warp == 0 && place.lane == 0) shared.strayed = 0;
            if (place.warp % T::kTeam == 0)
                references().put(place.lane, running.measure == Measure::undecided ? empty_reference()
                                                                                   : reference_at(0.0f, args.scale));
            running.measure = Measure::by_the_row;
            v_copy.go_back(T::kKeys);
        };
        const auto add_corner = [&](int keys) { // returns whether all rows stayed in range; otherwise adds nothing
            v_copy.template next_rows<T::kKeys>(v_rows, 0);
            float s[kRowsPerThread][T::kKT];
            clear(s);
            score<T, Choices, CornerRows<T>>(s, score_factors, [](int) {});
            const auto sight = tile_sight<T, kView>(args, work.piece(args), keys);
            RowSums after = T::kSumsWait ? shared.sums.take() : sums;
            const float largest =
                weigh_by_zero<true, CornerRows<T>>(s, after, 0.0f, own_weights, position<Lanes>(), sight, args.scale);
            set_if(&shared.strayed, largest > (kHeadroom - 1.0f) * args.scale.inv_c);
            if (T::kTeam == 2) offer<T>(s, shared.fours[threadIdx.x]);
            finish_copies();
            __syncthreads(); // V and the weights are complete
            if (*static_cast<volatile unsigned*>(&shared.strayed) != 0) return false;
            float o[kRowsPerThread][T::kCT];
            clear(o);
            Fragments<T::kCT> f;
            OutputSteps<T>::load(f, 0, output_factors, 0);
            const SharedAddress middle = output_factors.b + OutputSteps<T>::b(kKeyTile);
            add_products<T, Choices, CornerRows<T>::seeing(0)>(o, f, output_factors, middle, [](int) {});
            add_products<T, Choices, CornerRows<T>::seeing(kKeyTile)>(o, f, output_factors,
                                                                      middle + OutputSteps<T>::b(kKeyTile), [](int) {});
            rewind<OutputSteps<T>>(output_factors, T::kKeys);
            if (T::kTeam == 2)
                collect(after, shared.fours[threadIdx.x & ~kWarpSize], shared.fours[threadIdx.x | kWarpSize]);
            if (T::kSumsWait) shared.sums.put(after);
            sums = after;
            add_rows(running.total, o);
            return true;
        };

#pragma unroll 1
        for (int keys = piece.end_key - piece.first_key; keys > 0;) { // keys to go
            if (kView == View::causal && T::kWhole && kAsync && keys <= T::kKeys &&
                running.measure == Measure::by_zero &&
                tile_sight<T, kView>(args, work.piece(args), keys).first == 1 + T::kKeys - T::kRows) {
                if (add_corner(keys)) break;
                measure_by_the_row();
                __syncthreads();
            }
            if (!kAsync) k_copy.whole_tile(k_rows, T::kKeys);
            if (!Choices::kWoven) v_copy.template next_rows<T::kKeys>(v_rows, 0);
            if (!kAsync) __syncthreads(); // K and V are complete

            float s[kRowsPerThread][T::kKT];
            score<T, Choices>(s, score_factors, [&](int block) {
                constexpr int kCount = T::kKeys * kScoreColumns / T::kDim;
                if (Choices::kWoven) v_copy.template next_rows<kCount>(v_rows, block * kCount);
            });
            // Whether a row of the block may not see all keys of the tile: in the last tiles, and in the first ones, up
            // to where the last row's window begins.
            const bool ragged =
                keys < T::kKeys + (kMasked ? T::kRows - 1 : 0) || (kView == View::window && keys > args.sight.window);
            TileSight<T, kView> sight{keys};
            if constexpr (kMasked) {
                if (ragged) {
                    const Position place = position<Lanes>();
                    sight = tile_sight<T, kView>(args, work.piece(args), keys);
                    hide_scores(s, place, sight,
                                running.measure == Measure::by_the_row ? -HUGE_VALF : kHidden * args.scale.inv_c);
                }
            }
            const RowSums sums_before = sums; // for a tile that is repeated; stored sums stay stored
            if (T::kSumsWait) sums = shared.sums.take();
            const auto weigh_tile = [&] { // returns whether references were raised
                float largest = 0.0f;
                if (running.measure != Measure::by_zero) {
                    if (running.measure == Measure::by_the_row)
                        return weigh_by_the_row<Lanes>(s, sums, references(), own_weights, ragged, sight, args.scale);
                    if (part == 0 && starts_low<T, Lanes>(s, args.scale)) largest = HUGE_VALF;
                }
                if (ragged) // two copies of the code: a branch within costs 1 %
                    largest = weigh_by_zero<true>(s, sums, largest, own_weights, at, sight, args.scale);
                else
                    largest = weigh_by_zero<false>(s, sums, largest, own_weights, at, sight, args.scale);
                set_if(&shared.strayed, largest > (kHeadroom - 1.0f) * args.scale.inv_c);
                return false;
            };
            const bool raised = weigh_tile();
            if (T::kTeam == 2) offer<T>(s, shared.fours[threadIdx.x]);
            float o[kRowsPerThread][T::kCT];
            clear(o);
            keep_here(o); // while other threads come to the barrier
            finish_copies();
            __syncthreads(); // V and the weights are complete; all threads are done with Q and K

            const bool strayed = *static_cast<volatile unsigned*>(&shared.strayed) != 0;
            if (kAsync && !Choices::kWoven) k_copy.whole_tile(k_rows, T::kKeys);
            const auto copy_keys = [&](int count) {
                if (Choices::kWoven) // `count` is 8, 16 at d = 32: whole steps of the copy
#pragma unroll
                    for (int row = 0; row < count; row += k_copy.kRowsAtOnce) k_copy.next_rows(k_rows);
            };
            Fragments<T::kCT> f;
            if (Choices::kAhead) OutputSteps<T>::load(f, 0, output_factors, 0);
            SharedAddress end = output_factors.b + OutputSteps<T>::b(raised ? kKeyTile : T::kKeys);
#pragma unroll 1
            for (bool halfway = raised;; halfway = false) { // if rows were raised, 32 keys and then 32
                add_products<T, Choices>(o, f, output_factors, end, copy_keys);
                if (!halfway) break;
                multiply_rows(o, RowFactors(references().factor[1], position<Lanes>()));
                end += OutputSteps<T>::b(T::kKeys - kKeyTile);
            }
            rewind<OutputSteps<T>>(output_factors, T::kKeys);
            if (Choices::kWoven) k_copy.rewind(T::kKeys);

            const auto& first = shared.fours[threadIdx.x & ~kWarpSize];
            const auto& second = shared.fours[threadIdx.x | kWarpSize];
            if (raised || strayed) {
                const Position place = position<Lanes>();
                const bool first_part = place.warp % T::kTeam == 0;
                if (strayed) { // repeat the tile, and do the rest of the piece, by the row
                    measure_by_the_row();
                    if (!T::kSumsWait) sums = sums_before;
                    k_copy.go_back(kAsync ? 2 * T::kKeys : T::kKeys);
                    if (kAsync) k_copy.whole_tile(k_rows, T::kKeys);
                    finish_copies();
                    __syncthreads(); // K is complete again
                    continue;
                }
                if (T::kTeam == 2)
                    collect(sums, first, second, RowFactors(references().factor[0], place),
                            RowFactors(references().factor[1], place));
                add_rows(running.total, RowFactors(references().total_factor, place), o);
                if (first_part) references().settle(place.lane);
            } else {
                if (T::kTeam == 2) collect(sums, first, second);
                add_rows(running.total, o);
            }
            if (running.measure == Measure::undecided) running.measure = Measure::by_zero;
            if (T::kSumsWait) shared.sums.put(sums);
            keys -= T::kKeys;
            finish_copies();
            __syncthreads(); // the next K tile is complete; all threads are done with V and the weights
        }
        const Piece done = work.piece(args);
        work.draw(args);
        if (work.any()) copy_beginning(); // the next piece is copied while this one is stored
        if (T::kSumsWait) sums = shared.sums.take();
        finish<T, Lanes, kMasked>(running, sums, references(), done, args, position<Lanes>(), work);
    }
#else
    __trap(); // the table keeps GPUs and builds below 8.0 from it
#endif
}

// ---- The tiling that a rung of register tiles takes for a problem, and its launch

// Head size, all columns exist, warps of a team, warps, blocks per multiprocessor.
template <bool kWhole>
using Tiling32 = Tiling<32, kWhole, 1, 4, 3>;
template <bool kWhole>
using Tiling64 = Tiling<64, kWhole, 1, 4, 2>;
template <bool kWhole>
using Tiling128 = Tiling<128, kWhole, 2, 8, 1>;
// Half the rows, for few rows or little shared memory.
template <bool kWhole>
using SmallTiling64 = Tiling<64, kWhole, 2, 4, 3>;
template <bool kWhole>
using SmallTiling128 = Tiling<128, kWhole, 2, 4, 1>;

template <class T>
RowBlocks row_blocks(const ForwardArgs& args) {
    return {blocks_of<T>(args), T::kBlocks, args.sight.more != 0, args.seen_share()};
}

template <template <bool> class TilingOf, template <bool> class SmallTilingOf, class Choices, class Visit>
void with_either(const ForwardArgs& args, const Device& device, Visit visit) {
    using Large = TilingOf<true>;
    constexpr bool kWhole = Choices::kAlwaysWhole;
    constexpr bool kWindow = Choices::kView == View::window;
    constexpr bool kLargeWhole = kWhole || kWindow; // large blocks have code for whole columns alone
    if constexpr (!Choices::kAlwaysLarge)
        if ((kWindow && args.dim != Large::kDim) ||
            takes_small_tiling(row_blocks<Large>(args), row_blocks<SmallTilingOf<true>>(args),
                               sizeof(TileMemory<Large>), Choices::template Work<Large>::kDrawn, device))
            return with_columns<SmallTilingOf, kWhole>(args.dim, visit);
    return with_columns<TilingOf, kLargeWhole>(args.dim, visit);
}

// Calls visit(T()) with the tiling T for the problem; its matrices are not read.
template <class Choices, class Visit>
void with_tiling(const ForwardArgs& args, const Device& device, Visit visit) {
    if (args.dim <= 32) return with_columns<Tiling32, Choices::kAlwaysWhole>(args.dim, visit);
    if (args.dim <= 64) return with_either<Tiling64, SmallTiling64, Choices>(args, device, visit);
    return with_either<Tiling128, SmallTiling128, Choices>(args, device, visit);
}

template <class T, class Choices>
void launch_tiling(const ForwardArgs& args, int64_t blocks, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(TileMemory<T>);
    const auto kernel = tile_kernel<T, Choices>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    if (args.statistics != nullptr) // M of most rows is 0: for these the kernel only stores l
        HW4_CUDA(cudaMemset2DAsync(args.statistics, static_cast<size_t>(args.statistics_unit) * sizeof(RowStatistics),
                                   0, static_cast<size_t>(args.queries) * sizeof(RowStatistics), args.units, stream));
    kernel<<<static_cast<unsigned>(blocks), T::kThreads, kBytes, stream>>>(args);
}

// The defaults of a rung's choices.
struct TileChoices {
    using Lanes = PairedLanes;
    template <class T>
    using Work = WholeRows<T>;
    static constexpr bool kAsync = false;
    static constexpr bool kAhead = false;
    static constexpr bool kWoven = false;
    static constexpr View kView = View::all;
    static constexpr bool kAlwaysWhole = false; // takes only d = 32, 64 and 128
    static constexpr bool kAlwaysLarge = false; // also for few rows
};

// Launches one block for each block of rows.
template <class Choices>
void launch_tiles(const Launch& launch, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    with_tiling<Choices>(args, launch.device, [&](auto tiling) {
        using T = decltype(tiling);
        launch_tiling<T, Choices>(args, blocks_of<T>(args), stream);
    });
}

struct WovenTiles : TileChoices {
    static constexpr bool kAlwaysWhole = true;
    static constexpr bool kAsync = true;
    static constexpr bool kAhead = true;
    static constexpr bool kWoven = true;
};

// drawn_tiles for each view: separate kernels, since code for an absent mask costs time, in separate files, since they
// take long to compile.
template <View kViewOf>
struct DrawnTiles : WovenTiles {
    template <class T>
    using Work = DrawnPieces<T, kViewOf>;
    static constexpr bool kAlwaysWhole = false;
    static constexpr View kView = kViewOf;
};

template <class T>
unsigned blocks_on(const Device& device) {
    return static_cast<unsigned>(T::kBlocks * device.multiprocessors);
}

// With more blocks than rows, the blocks that start first take the rows: under a mask two or three rows shared a
// multiprocessor while others stayed empty, which took 1.6 times as long.
template <class T>
int64_t drawing_blocks(const ForwardArgs& args, const Device& device) {
    return std::min<int64_t>(blocks_on<T>(device), blocks_of<T>(args));
}

template <class T>
unsigned cut_rows_of(const ForwardArgs& args, const Device& device) {
    return cut_rows(static_cast<unsigned>(blocks_of<T>(args)), blocks_on<T>(device), args.sight.more == 0);
}

template <View kView>
void launch_drawn(const Launch& launch, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    with_tiling<DrawnTiles<kView>>(args, launch.device, [&](auto tiling) {
        using T = decltype(tiling);
        using Left = typename DrawnPieces<T, kView>::Left;
        HW4_CUDA(cudaMemsetAsync(args.scratch, 0, Left::cleared_bytes(cut_rows_of<T>(args, launch.device)), stream));
        launch_tiling<T, DrawnTiles<kView>>(args, drawing_blocks<T>(args, launch.device), stream);
    });
    HW4_CUDA_LAUNCHED("drawn_tiles");
}

void launch_masked_drawn_tiles(const Launch& launch, cudaStream_t stream);
void launch_window_drawn_tiles(const Launch& launch, cudaStream_t stream);

} // namespace hw4::gpu
