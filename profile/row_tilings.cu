#include "profile/row_tilings.h"

#include <iterator>
#include <utility>

#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/row_tiles.cuh"

namespace hw4::gpu {

// Where the rungs have RungBlock.
template <int kRowCount, int kKeyCount, int kChunks>
struct TriedBlock {
    static constexpr int kRows = kRowCount;
    static constexpr int kKeys = kKeyCount;
    static constexpr int kHeldChunks = kChunks; // whole rows of K or V
    // Registers for 32 warps on a multiprocessor, whatever Br: 64 a thread, all that a block of 1024 can have. Left
    // alone the compiler takes up to 128 for small blocks, and the experiment would be about that.
    static constexpr int kLeastBlocks = 32 / kRows;
};

namespace {

constexpr int kRowCounts[] = {4, 8, 16, 32}; // 32 are 1024 threads, the most that a block may have
constexpr int kKeyCounts[] = {32, 64, 96, 128, 256};
constexpr size_t kTilings = std::size(kRowCounts) * std::size(kKeyCounts);

template <class T>
void launch_checked(const Launch& launch, cudaStream_t stream) {
    launch_row_tiling<T>(forward_args(launch), stream);
    HW4_CUDA_LAUNCHED("row_tiles");
}

template <int kRows, int kKeys, int kChunks>
SizedTiling tiling() {
    using T = RowTiling<RegisterRows, TriedBlock<kRows, kKeys, kChunks>, kChunks>;
    SizedTiling made{kRows, kKeys, T::kThreads, sizeof(RowTiles<T>), nullptr, nullptr};
    if constexpr (sizeof(RowTiles<T>) <= kSharedBytes) {
        made.function = reinterpret_cast<const void*>(&row_tiles<T>);
        made.launch = launch_checked<T>;
    }
    return made;
}

template <int kChunks, size_t... i>
std::vector<SizedTiling> tilings(std::index_sequence<i...>) {
    return {tiling<kRowCounts[i / std::size(kKeyCounts)], kKeyCounts[i % std::size(kKeyCounts)], kChunks>()...};
}

} // namespace

const std::vector<SizedTiling>& row_tilings(int64_t dim) {
    static const std::vector<SizedTiling> narrow = tilings<1>(std::make_index_sequence<kTilings>());
    static const std::vector<SizedTiling> wide = tilings<2>(std::make_index_sequence<kTilings>());
    static_assert(kMostTilingColumns == 2 * kTile);
    return dim <= kTile ? narrow : wide;
}

std::string why_not(const SizedTiling& tiling) {
    if (tiling.launch != nullptr) return "";
    return "needs " + std::to_string(tiling.shared_bytes) +
           " bytes of shared memory a block, of which every card grants " + std::to_string(kSharedBytes);
}

} // namespace hw4::gpu
