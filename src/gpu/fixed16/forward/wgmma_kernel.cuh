// Attention under the contract fixed16 on Hopper's integer tensor cores: the work of a block's groups
// (src/gpu/fixed/forward/wgmma_block.cuh).
#pragma once

#include "src/gpu/fixed/forward/wgmma_block.cuh"
#include "src/gpu/fixed16/forward/group.cuh"

namespace hw4::gpu::fixed_point {

template <int kDim, int kGroups, int kStages, int kBlocks>
using PairVariant = BlockVariant<TwoDigits, kDim, kGroups, kStages, kBlocks>;

// Head size, groups of a block, stages, blocks per multiprocessor. `Apart` groups are a block each; `Joint` ones share
// a block and its tiles.
using PairsApart32 = PairVariant<32, 1, 3, 3>;
using PairsApart64 = PairVariant<64, 1, 2, 3>;
using PairsJoint32 = PairVariant<32, 3, 8, 1>;
using PairsJoint64 = PairVariant<64, 3, 5, 1>;
using PairsJoint128 = PairVariant<128, 2, 3, 1>;

// The products of one group, on the tensor cores, with the current tile.
template <class T>
struct PairProducts : GroupTiles<T> {
    using Layout = typename T::Layout;
    static constexpr bool kMasked = T::kMasked;
    static constexpr bool kManyJobs = T::kManyJobs;
    static __device__ constexpr int seen_more(const ForwardArgs&) { return T::kMasked ? 1 : 0; }
    using GroupTiles<T>::ring;
    using GroupTiles<T>::GroupTiles;

    __device__ __forceinline__ TileScales scales(unsigned) const { return ring.scales(); }

    // A plane of A times both of B's gives two levels at once: K's and V's planes follow one another.
    // With half of the scores: those of the tile's first keys, whose planes do not follow one another.
    template <int kScores>
    __device__ __forceinline__ void begin_scores(unsigned, TwoLevels<kScores>& s) {
        constexpr uint32_t kQueryPlane = kGroupRows * T::kDim;
        constexpr int kKeys = 2 * kScores;
        ring.wait();
#pragma unroll
        for (int i = 0; i < kScores; ++i) s.l[kScores + i] = kScoreStart;
#pragma unroll
        for (int i = 0; i < kScores; ++i) asm volatile("" : "+r"(s.l[kScores + i]));
        const RowDescriptor<T> k = this->k.plus(ring.stage_offset());
        begin_products();
#pragma unroll
        for (uint32_t at = 0; at < T::kDim; at += kStepBytes) {
            if (at == 0)
                Product<kKeys>::begin(s.l, this->q, k.plus(Layout::kPlane));
            else
                Product<kKeys>::add(s.l, this->q.plus(at), k.plus(Layout::kPlane + at));
            if constexpr (kKeys == TwoDigits::kTileKeys) {
                Product<2 * kKeys>::add(s.l, this->q.plus(kQueryPlane + at), k.plus(at));
            } else {
                Product<kKeys>::add(s.l, this->q.plus(kQueryPlane + at), k.plus(at));
                Product<kKeys>::add(s.l + kScores, this->q.plus(kQueryPlane + at), k.plus(Layout::kPlane + at));
            }
        }
        commit_products();
        if (this->warp == 0) this->fetcher.refill(ring.turn());
    }

    template <int kScores>
    __device__ __forceinline__ void end_scores(unsigned, TwoLevels<kScores>& s) const {
        wait_for_products<0>();
        pin(s.l);
    }

    // The weights of kCount steps of 32 keys, from `first` on, times those columns of V. The first step begins the
    // sums.
    template <int kCount>
    __device__ __forceinline__ void add_values(unsigned, int part, int first, StepWords (&words)[kPairSteps],
                                               TwoLevels<Layout::kColumns / 2>& y) const {
        const auto v = this->v.plus(ring.stage_offset() + static_cast<uint32_t>(part * Layout::kPart));
#pragma unroll
        for (int i = first; i < first + kCount; ++i) {
            pin(words[i].low);
            pin(words[i].high);
        }
        begin_products();
#pragma unroll
        for (int i = first; i < first + kCount; ++i) {
            const uint32_t at = static_cast<uint32_t>(i) * kStepBytes;
            if (i == 0)
                Product<2 * Layout::kColumns>::begin(y.l, words[i].high, v.plus(at));
            else
                Product<2 * Layout::kColumns>::add(y.l, words[i].high, v.plus(at));
            Product<Layout::kColumns>::add(y.l, words[i].low, v.plus(Layout::kPartPlane + at));
        }
        commit_products();
    }

    __device__ __forceinline__ void end_values(unsigned, int part, TwoLevels<Layout::kColumns / 2>& y) const {
        wait_for_products<0>();
        pin(y.l);
        if (part == Layout::kParts - 1) ring.release();
    }
};

template <class T>
struct GroupWork<T, TwoDigits> {
    struct Type : PairGroup<PairProducts<T>, PowersByInstruction> {
        __device__ Type(BlockMemory<T>& memory, const unsigned char* tiles, int group)
            : PairGroup<PairProducts<T>, PowersByInstruction>(PairProducts<T>(memory, tiles, group), {}) {}
    };
};

// The kernels of wgmma_pairs_masked.cu.
extern template void launch_wgmma<PairsApart32::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<PairsApart64::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<PairsJoint32::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<PairsJoint64::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<PairsJoint128::Masked>(const ForwardArgs&, int64_t, cudaStream_t);

} // namespace hw4::gpu::fixed_point
