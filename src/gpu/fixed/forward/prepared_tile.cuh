// A tile of K or of V on its way to digits, by a team of threads: rows to registers, their largest number, planes of
// digits to global memory.
#pragma once

#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/fixed/forward/digits.cuh"
#include "src/gpu/fixed/forward/elements.cuh"

namespace hw4::gpu::fixed_point {

// Threads of a team, which prepares a tile of K or of V: a thread has as many numbers in its registers whichever
// contract it is. A block is one team, or several.
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

// The largest of all threads' values, none of which is negative, for every one of them. Once for a tile.
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

// Rows of a matrix, as many as there are for a tile.
template <class Stored>
struct RowsOf {
    const Stored* first;
    size_t stride;
    int count;
    int dim;
};

// What kThreads threads, each with kEach pieces of rows, have fetched.
template <class Stored, int kEach, int kThreads>
struct Fetched {
    Four<Stored> pieces[kEach][kThreads];

    __device__ __forceinline__ Four<Stored>* at(int i) { return &pieces[i][thread_of_team<kThreads>()]; }
};

// A tile's rows of a matrix: a thread has four columns of each so many rows; with two digits, of two neighbours each
// time, whose digits make a word.
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

    // Loads elements that are stored as ElementType says.
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

    // The same of rows of kDim columns in two steps, through the thread's own places in shared memory. Of missing rows
    // there are zeros there, by a copy too: to store them would wait for what is copied.
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

    // No row's sum of squares is larger. A row's groups are neighbours; where it is two warps wide, each half counts
    // twice.
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

    // Where a piece goes in a plane. The swizzle repeats after kSwizzleRows, so that all lie at constant distances from
    // the first ones.
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

    // With zeros where nothing is.
    template <class Stored>
    static __device__ __forceinline__ Four<Stored> ragged_piece(const RowsOf<Stored>& rows, int i) {
        if (row(i) >= rows.count) return {};
        return four_columns(row_at(rows, i), column(), rows.dim, rows.dim % 4 == 0);
    }
};

// Straight to global memory: four columns of a row are a word of each plane, and a row is written by neighbours.
template <class Rules, int kDim>
__device__ void keys_to_planes(const TileOfFloats<Rules, kDim>& k, fixed::Factors scale, unsigned char* tile) {
    const auto digits = [&](float n) { return biased_digits_at<Rules::kDigits>(n, scale); };
#pragma unroll
    for (int i = 0; i < k.kEach; ++i)
        planes_of<Rules::kDigits>(k.x[i], digits).store(tile + k.place(i), TileLayout<Rules, kDim>::kPlane);
}

// A tile's numbers on their way from rows to columns, as words of biased digits: of three a word each, of two a word
// for both of two neighbouring rows.
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

    // The digits of keys `key`, the next one, and those 8 further on.
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

// Through shared memory, since V's rows become columns: then four keys' digits to a word for each place.
template <class Rules, int kDim>
__device__ void values_to_planes(const TileOfFloats<Rules, kDim>& v, fixed::Factors scale,
                                 ValueWords<Rules, kDim>& values, unsigned char* tile) {
    using Layout = TileLayout<Rules, kDim>;
#pragma unroll
    for (int i = 0; i < v.kEach; i += v.kTogether) values.put(v, i, scale);
    sync_team<v.kThreads>();
    constexpr int kWords = Rules::kTileKeys / 4; // of a row
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

} // namespace hw4::gpu::fixed_point
