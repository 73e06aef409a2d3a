// mma_groups: integer tensor cores, with instructions that every GPU from compute capability 8.0 on has.
//
// Idea      A number of three digits is exact in bytes: scores and outputs are sums of products of bytes, which tensor
//           cores compute at many times the rate of fma. A pre-pass makes the digits of K and V once for all query rows
//           (prepare.cu), in the order in which they are needed.
// Work      A block is one group: 128 threads, 64 query rows, a warp 16 of them. The steps of a tile: see group.cuh.
// Memory    Digits of Q, and one tile of K and one of V: 19 KiB at d = 32, 37 at 64, 73 at 128; at 256 K and V take
//           turns in one buffer, 97. 221 registers at 32, 254 and 255 beyond (sm_90): none spilled up to 64, a few
//           words at 128, a kilobyte at 256. Two blocks per multiprocessor, beyond 128 one. Scratch: the digits of K
//           and V. One code for all masks.
// Overlap   K of the next tile is copied as soon as this one's scores are done, V as soon as its output is; not at 256.
// Order     Integers within a tile; from tile to tile the contract's, in the order of the keys.
// Limits    A warp's products and its weights take turns: only another warp fills the gaps, and both leave few
//           registers. Operands pass through registers, a word at a time.
#include "src/gpu/fixed/forward/group.cuh"
#include "src/gpu/fixed/forward/mma_block.cuh"
#include "src/gpu/fixed/forward/prepare.h"
#include "src/gpu/fixed/kernels.h"

namespace hw4::gpu::fixed_point {

// ---- Attention under the contract `fixed` with mma.sync: the work of a block's group (mma_block.cuh)

// The six products of three digits of A with B's planes, for 8 columns; kSigned: A's digits are signed.
template <int kRowBytes, bool kSigned, int kN>
__device__ __forceinline__ void multiply_digits(Levels<kN>& sums, int column_group,
                                                const uint32_t (&a)[fixed::kDigits][4], const unsigned char* planes,
                                                int plane_bytes, int row, int at) {
    uint32_t b[fixed::kDigits][2];
#pragma unroll
    for (int digit = 0; digit < fixed::kDigits; ++digit) {
        b[digit][0] = word_at<kRowBytes>(planes + digit * plane_bytes, row, at);
        b[digit][1] = word_at<kRowBytes>(planes + digit * plane_bytes, row, at + 16);
    }
    int32_t* const l2 = sums.l + 4 * column_group;
    int32_t* const l1 = l2 + kN;
    int32_t* const l0 = l1 + kN;
    multiply<kSigned>(l0, a[2], b[2][0], b[2][1]);
    multiply<kSigned>(l1, a[2], b[1][0], b[1][1]);
    multiply<kSigned>(l1, a[1], b[2][0], b[2][1]);
    multiply<kSigned>(l2, a[2], b[0][0], b[0][1]);
    multiply<kSigned>(l2, a[1], b[1][0], b[1][1]);
    multiply<kSigned>(l2, a[0], b[2][0], b[2][1]);
}

// The products of a block.
template <class T>
struct MmaProducts : MmaTiles<T> {
    using Layout = typename T::Layout;
    static constexpr bool kMaySteady = false;

    __device__ __forceinline__ void begin_scores(unsigned tile, ScoreLevels& s) const {
        clear(s);
        this->wait_for(tile, 0);
#pragma unroll(T::kDim > 64 ? 1 : T::kDim / 32)
        for (int at = this->lane_byte(); at < T::kDim; at += 32) {
            uint32_t a[fixed::kDigits][4];
            this->load_queries(at, a);
#pragma unroll
            for (int keys = 0; keys < fixed::kTileKeys / 8; ++keys)
                multiply_digits<T::kDim, true>(s, keys, a, this->memory.planes[0], Layout::kPlane,
                                               8 * keys + this->lane_row(), at);
        }
    }

    __device__ __forceinline__ void end_scores(unsigned tile, const ScoreLevels&) const { this->fetch_next(tile, 0); }

    __device__ __forceinline__ void begin_values(unsigned tile, int part, const WeightPlanes& planes,
                                                 Levels<Layout::kColumns / 2>& y) const {
        clear(y);
        if (part == 0) this->wait_for(tile, 1);
        const unsigned char* const v = this->values(part);
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int columns = 0; columns < Layout::kColumns / 8; ++columns)
                multiply_digits<fixed::kTileKeys, false>(y, columns, planes.half[half], v, Layout::kPartPlane,
                                                         8 * columns + this->lane_row(), 32 * half + this->lane_byte());
    }

    __device__ __forceinline__ void end_values(unsigned tile, int part, const Levels<Layout::kColumns / 2>&) const {
        if (part == Layout::kParts - 1) this->fetch_next(tile, 1);
    }

    template <int kN>
    static __device__ __forceinline__ void clear(Levels<kN>& sums) {
#pragma unroll
        for (int i = 0; i < fixed::kDigits * kN; ++i) sums.l[i] = 0;
    }
};

} // namespace hw4::gpu::fixed_point

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <int kDim>
void launch_for(const ForwardArgs& args, cudaStream_t stream) {
    using T = MmaVariant<ThreeDigits, kDim>;
    launch_mma<T, Group<MmaProducts<T>>>(
        args, launch_prepare<ThreeDigits>(args, Facts::needed, 0, all_before(args), stream), {}, stream);
}

} // namespace

Plan plan_mma_groups(const Problem& problem, const Device&) {
    Plan plan;
    plan.shared_bytes = mma_memory_bytes<ThreeDigits>(problem.dim);
    plan.scratch_bytes = prepared_bytes<ThreeDigits>(problem);
    return plan;
}

void launch_mma_groups(const Launch& launch, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    switch (padded_columns(args.dim)) {
    case 32: return launch_for<32>(args, stream);
    case 64: return launch_for<64>(args, stream);
    case 128: return launch_for<128>(args, stream);
    default: return launch_for<256>(args, stream);
    }
}

} // namespace hw4::gpu
