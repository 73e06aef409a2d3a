// Attention under `fixed` on Hopper's integer tensor cores: the work of a block's groups (wgmma_block.cuh).
#pragma once

#include "src/gpu/fixed/forward/group.cuh"
#include "src/gpu/fixed/forward/wgmma_block.cuh"

namespace hw4::gpu::fixed_point {

template <int kDim, int kGroups, int kStages, int kBlocks>
using Variant = BlockVariant<ThreeDigits, kDim, kGroups, kStages, kBlocks>;

// Head size, groups of a block, stages, blocks per multiprocessor. An `Alone` group has so many stages that no two
// blocks fit; `Apart` groups are a block each; `Joint` ones share a block and its tiles.
using Alone32 = Variant<32, 1, 9, 1>;
using Alone64 = Variant<64, 1, 5, 1>;
using Alone128 = Variant<128, 1, 3, 1>;
using Apart32 = Variant<32, 1, 2, 4>;
using Apart64 = Variant<64, 1, 2, 3>;
using Joint32 = Variant<32, 4, 8, 1>;
using Joint64 = Variant<64, 3, 6, 1>;
using Joint128 = Variant<128, 2, 3, 1>;

using KeyDescriptor = PlaneDescriptor<fixed::kTileKeys>; // of V

template <class T>
__device__ __forceinline__ void multiply_queries(ScoreLevels& s, RowDescriptor<T> q, RowDescriptor<T> k) {
    using P = LevelProducts<fixed::kTileKeys>;
    constexpr uint32_t kPlane = T::Layout::kPlane;
    P::template high<true>(s.l, q.plus(2 * kPlane), k);
    P::middle(s.l, q.plus(kPlane), k.plus(kPlane));
    P::low(s.l, q, k.plus(2 * kPlane));
#pragma unroll
    for (uint32_t at = kStepBytes; at < T::kDim; at += kStepBytes) {
        P::template high<false>(s.l, q.plus(2 * kPlane + at), k.plus(at));
        P::middle(s.l, q.plus(kPlane + at), k.plus(kPlane + at));
        P::low(s.l, q.plus(at), k.plus(2 * kPlane + at));
    }
}

template <class T>
__device__ __forceinline__ void multiply_weights(Levels<T::Layout::kColumns / 2>& y, const WeightPlanes& p,
                                                 KeyDescriptor v) {
    using P = LevelProducts<T::Layout::kColumns>;
    constexpr uint32_t kPlane = T::Layout::kPartPlane;
    P::template high<true>(y.l, p.half[0][2], v);
    P::middle(y.l, p.half[0][1], v.plus(kPlane));
    P::low(y.l, p.half[0][0], v.plus(2 * kPlane));
    P::template high<false>(y.l, p.half[1][2], v.plus(kStepBytes));
    P::middle(y.l, p.half[1][1], v.plus(kPlane + kStepBytes));
    P::low(y.l, p.half[1][0], v.plus(2 * kPlane + kStepBytes));
}

// All words are computed before the first product begins.
__device__ __forceinline__ void pin_words(uint32_t (&words)[fixed::kDigits][4]) {
#pragma unroll
    for (int place = 0; place < fixed::kDigits; ++place) pin(words[place]);
}

// The products of one group, on the tensor cores, with the current tile.
template <class T>
struct WgmmaProducts : GroupTiles<T> {
    using Layout = typename T::Layout;
    static constexpr bool kMaySteady = T::kJoint; // joint groups mostly have long sequences
    static constexpr bool kMasked = T::kMasked;
    static __device__ constexpr int seen_more(const ForwardArgs&) { return T::kMasked ? 1 : 0; }
    using GroupTiles<T>::ring;
    using GroupTiles<T>::GroupTiles;

    __device__ __forceinline__ TileScales scales(unsigned) const { return ring.scales(); }

    // Starts the scores of a tile; code that does not need them may come before end_scores().
    __device__ __forceinline__ void begin_scores(unsigned, ScoreLevels& s) {
        ring.wait();
        begin_products();
        multiply_queries<T>(s, this->q, this->k.plus(ring.stage_offset()));
        commit_products();
        if (this->warp == 0) this->fetcher.refill(ring.turn());
    }

    __device__ __forceinline__ void end_scores(unsigned, ScoreLevels& s) const {
        wait_for_products<0>();
        pin(s.l);
    }

    __device__ __forceinline__ void begin_values(unsigned, int part, WeightPlanes& planes,
                                                 Levels<Layout::kColumns / 2>& y) const {
        pin_words(planes.half[0]);
        pin_words(planes.half[1]);
        begin_products();
        multiply_weights<T>(y, planes, this->v.plus(ring.stage_offset() + static_cast<uint32_t>(part * Layout::kPart)));
        commit_products();
    }

    __device__ __forceinline__ void end_values(unsigned, int part, Levels<Layout::kColumns / 2>& y) const {
        wait_for_products<0>();
        pin(y.l);
        if (part == Layout::kParts - 1) ring.release();
    }
};

template <class T>
struct GroupWork<T, ThreeDigits> {
    struct Type : Group<WgmmaProducts<T>> {
        static constexpr Facts kFacts = WgmmaProducts<T>::kMaySteady ? Facts::all : Facts::needed;

        __device__ Type(BlockMemory<T>& memory, const unsigned char* tiles, int group)
            : Group<WgmmaProducts<T>>(WgmmaProducts<T>(memory, tiles, group)) {}
    };
};

// Kernels take long to compile. These are in wgmma_shares.cu, also for wgmma_groups:
extern template void launch_wgmma<Apart32>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<Apart64>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<Joint128>(const ForwardArgs&, int64_t, cudaStream_t);
// And these in wgmma_masked.cu:
extern template void launch_wgmma<Apart32::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<Apart64::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<Joint32::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<Joint64::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<Joint128::Masked>(const ForwardArgs&, int64_t, cudaStream_t);

} // namespace hw4::gpu::fixed_point
