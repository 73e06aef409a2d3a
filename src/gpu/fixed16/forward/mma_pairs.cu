// table_pairs: fixed16 on the integer tensor cores of every GPU from compute capability 8.0 on. mma_pairs: with
// the GPU's own instruction for powers of 2.
//
// Idea      As in mma_groups (src/gpu/fixed/forward), with two digits: three products instead of six, and tiles of
//           128 keys. table_pairs looks powers of 2 up in the contract's table, which is right on any GPU. mma_pairs
//           uses the GPU's instruction for powers of 2 if it gives the same as the table, which is checked once
//           (card_powers.cu); otherwise it works like table_pairs.
// Work      A block is one group: 128 threads, 64 query rows, a warp 16 of them. The steps of a tile: see group.cuh.
// Memory    Digits of Q, and one tile of K and one of V: 21 KiB at d = 32, 41 at 64, 81 at 128; at 256 K and V take
//           turns in one buffer, 97. 255 registers, some spilled (sm_90). Two blocks per multiprocessor,
//           beyond 128 one. Scratch: the digits of K and V. One code for all masks.
// Overlap   K of the next tile is copied as soon as this one's scores are done, V as soon as its output is; not at 256.
// Elements  As in wgmma_pairs.
// Order     Integers within a tile; from tile to tile the contract's, in the order of the keys.
// Limits    As in mma_groups; table_pairs: a load for each weight.
#include "src/gpu/fixed/forward/mma_block.cuh"
#include "src/gpu/fixed/forward/prepare.h"
#include "src/gpu/fixed/kernels.h"
#include "src/gpu/fixed16/forward/group.cuh"
#include "src/gpu/fixed16/forward/table_powers.cuh"

namespace hw4::gpu::fixed_point {

// ---- Attention under the contract fixed16 with mma.sync: the work of a block's group
// (src/gpu/fixed/forward/mma_block.cuh)

// The three products of two digits of A with B's planes, for 8 columns; kSigned: A's digits are signed.
template <int kRowBytes, bool kSigned, int kN>
__device__ __forceinline__ void multiply_pairs(TwoLevels<kN>& sums, int column_group, const uint32_t (&low)[4],
                                               const uint32_t (&high)[4], const unsigned char* planes, int plane_bytes,
                                               int row, int at) {
    uint32_t b[2][2];
#pragma unroll
    for (int digit = 0; digit < 2; ++digit) {
        b[digit][0] = word_at<kRowBytes>(planes + digit * plane_bytes, row, at);
        b[digit][1] = word_at<kRowBytes>(planes + digit * plane_bytes, row, at + 16);
    }
    int32_t* const l1 = sums.l + 4 * column_group;
    multiply<kSigned>(l1 + kN, high, b[1][0], b[1][1]);
    multiply<kSigned>(l1, high, b[0][0], b[0][1]);
    multiply<kSigned>(l1, low, b[1][0], b[1][1]);
}

// The products of a block.
template <class T>
struct MmaPairProducts : MmaTiles<T> {
    using Layout = typename T::Layout;
    static constexpr int kKeys = TwoDigits::kTileKeys;

    __device__ __forceinline__ void begin_scores(unsigned tile, PairLevels& s) const {
#pragma unroll
        for (int i = 0; i < kPairScores; ++i) {
            s.l[i] = 0;
            s.l[kPairScores + i] = kScoreStart;
        }
        this->wait_for(tile, 0);
#pragma unroll(T::kDim > 64 ? 1 : T::kDim / 32)
        for (int at = this->lane_byte(); at < T::kDim; at += 32) {
            uint32_t a[2][4];
            this->load_queries(at, a);
#pragma unroll
            for (int keys = 0; keys < kKeys / 8; ++keys)
                multiply_pairs<T::kDim, true>(s, keys, a[0], a[1], this->memory.planes[0], Layout::kPlane,
                                              8 * keys + this->lane_row(), at);
        }
    }

    __device__ __forceinline__ void end_scores(unsigned tile, const PairLevels&) const { this->fetch_next(tile, 0); }

    template <int kCount>
    __device__ __forceinline__ void add_values(unsigned tile, int part, int first, const StepWords (&words)[kPairSteps],
                                               TwoLevels<Layout::kColumns / 2>& y) const {
        if (first == 0) {
#pragma unroll
            for (int32_t& sum : y.l) sum = 0;
            if (part == 0) this->wait_for(tile, 1);
        }
#pragma unroll
        for (int step = first; step < first + kCount; ++step)
#pragma unroll
            for (int columns = 0; columns < Layout::kColumns / 8; ++columns)
                multiply_pairs<kKeys, false>(y, columns, words[step].low, words[step].high, this->values(part),
                                             Layout::kPartPlane, 8 * columns + this->lane_row(),
                                             32 * step + this->lane_byte());
    }

    __device__ __forceinline__ void end_values(unsigned tile, int part, const TwoLevels<Layout::kColumns / 2>&) const {
        if (part == Layout::kParts - 1) this->fetch_next(tile, 1);
    }
};

} // namespace hw4::gpu::fixed_point

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <int kDim>
void launch_for(const ForwardArgs& args, PowersAsTold powers, cudaStream_t stream) {
    using T = MmaVariant<TwoDigits, kDim>;
    using Work = PairGroup<MmaPairProducts<T>, PowersAsTold>;
    launch_mma<T, Work>(args, launch_prepare<TwoDigits>(args, Work::kFacts, 0, all_before(args), stream), powers,
                        stream);
}

void launch_by(const Launch& launch, PowersAsTold powers, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    switch (padded_columns(args.dim)) {
    case 32: return launch_for<32>(args, powers, stream);
    case 64: return launch_for<64>(args, powers, stream);
    case 128: return launch_for<128>(args, powers, stream);
    default: return launch_for<256>(args, powers, stream);
    }
}

} // namespace

Plan plan_mma_pairs(const Problem& problem, const Device&) {
    Plan plan;
    plan.shared_bytes = mma_memory_bytes<TwoDigits>(problem.dim);
    plan.scratch_bytes = prepared_bytes<TwoDigits>(problem);
    return plan;
}

void launch_table_pairs(const Launch& launch, cudaStream_t stream) { launch_by(launch, {.by_table = true}, stream); }

void launch_mma_pairs(const Launch& launch, cudaStream_t stream) {
    launch_by(launch, {.by_table = !launch.device.powers_follow_table}, stream);
}

} // namespace hw4::gpu
