// What a group of 128 threads does with its 64 query rows, whichever instructions take the products: rows to digits,
// tile after tile of weights, running sums, output.
#pragma once

#include "../kernels.h"
#include "tile_weights.cuh"

namespace hw4::gpu::fixed_point {

constexpr int kGroupThreads = 128;
constexpr int kGroupRows = 64;

// A group's rows of Q.
template <int kDim>
struct Queries {
    alignas(1024) unsigned char planes[kDigits][kGroupRows * kDim]; // low, middle, high
    int exponent[kGroupRows];
    float length[kGroupRows]; // at least its row's
};

// By one group. Rows that do not exist are zeros.
template <int kDim>
__device__ void load_queries(Queries<kDim>& to, const float* q, size_t stride, int rows, int dim, float c) {
    constexpr int kColumns = kDim < 128 ? kDim : 128; // that a warp's lanes, or some of them, hold at a time
    constexpr int kParts = kDim / kColumns;
    constexpr int kLanes = kColumns / 4;
    const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
    const bool aligned = dim % 4 == 0;
    for (int row = thread / kLanes; row < kGroupRows; row += kGroupThreads / kLanes) {
        float4 x[kParts];
        uint32_t largest = 0;
        float square = 0;
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            const int column = part * kColumns + thread % kLanes * 4;
            const float4 from = row < rows ? four_columns(q + static_cast<size_t>(row) * stride, column, dim, aligned)
                                           : make_float4(0, 0, 0, 0);
            x[part] = make_float4(fixed::scaled_query(from.x, c), fixed::scaled_query(from.y, c),
                                  fixed::scaled_query(from.z, c), fixed::scaled_query(from.w, c));
            largest = max(max(largest, max(magnitude(x[part].x), magnitude(x[part].y))),
                          max(magnitude(x[part].z), magnitude(x[part].w)));
            square += x[part].x * x[part].x + x[part].y * x[part].y + x[part].z * x[part].z + x[part].w * x[part].w;
        }
#pragma unroll
        for (int lanes = 1; lanes < kLanes; lanes *= 2) {
            largest = max(largest, __shfl_xor_sync(~0u, largest, lanes));
            square += __shfl_xor_sync(~0u, square, lanes);
        }
        const int exponent = fixed::exponent_for(float_of(largest));
        const fixed::Factors scale = fixed::factors(exponent);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            const Planes planes = planes_of(digits_at(x[part].x, scale), digits_at(x[part].y, scale),
                                            digits_at(x[part].z, scale), digits_at(x[part].w, scale));
            const int at = swizzled<kDim>(row, part * kColumns + thread % kLanes * 4);
#pragma unroll
            for (int plane = 0; plane < kDigits; ++plane)
                *reinterpret_cast<uint32_t*>(to.planes[plane] + at) = planes.word[plane];
        }
        if (thread % kLanes == 0) {
            to.exponent[row] = exponent;
            to.length[row] = length_bound(square, float_of(largest));
        }
    }
}

// Whether no weight of the group's rows in the batch is below 2^-140, whatever the tile. For choosing code, never for
// bytes.
template <int kDim>
__device__ bool scores_are_near(const Queries<kDim>& queries, float longest_key) {
    float length = 0;
    for (int row = static_cast<int>(threadIdx.x) % 32; row < kGroupRows; row += 32)
        length = fmaxf(length, queries.length[row]);
    // Two scores of a row differ by at most this, in base-2 units.
    const float spread = 2.0f * float_of(largest_of_warp(bits_of(length))) * longest_key;
    return __all_sync(~0u, spread <= 130.0f);
}

// Sums of products of digits, by level.
template <int kN>
struct Levels {
    int32_t l[kDigits * kN];

    __device__ __forceinline__ int32_t combined(int i) const { return fixed::combined(l[2 * kN + i], l[kN + i], l[i]); }
};
using ScoreLevels = Levels<kScoresEach>;

// What a thread carries from tile to tile for its two rows.
template <int kParts, int kSums>
struct Running {
    float reference[kRowsEach];
    float l[kRowsEach];
    float h[kRowsEach];
    float o[kParts][kSums]; // as the products leave them: 4*g + 2*row + i

    __device__ void clear() {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            reference[row] = -HUGE_VALF;
            l[row] = h[row] = 0;
        }
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int i = 0; i < kSums; ++i) o[part][i] = 0;
    }

    __device__ void raise(int row, float M) {
        const float alpha = power_of_two(reference[row] - M);
        l[row] *= alpha;
        h[row] *= alpha;
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int i = 0; i < kSums; ++i)
                if (i / 2 % 2 == row) o[part][i] *= alpha;
        reference[row] = M;
    }

    // l and h; finds what the tile's values weigh.
    template <class Weights>
    __device__ __forceinline__ void add_weights(const Weights& weights, const RowPair& pair, int v_lead,
                                                float (&weight)[kRowsEach]) {
        float M[kRowsEach];
        bool raised = false;
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            M[row] = weights.reference(row, pair);
            raised |= fixed::raises(M[row], reference[row]);
        }
        if (__any_sync(~0u, raised)) {
#pragma unroll
            for (int row = 0; row < kRowsEach; ++row)
                if (fixed::raises(M[row], reference[row])) raise(row, M[row]);
        }
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            const float lead = M[row] - reference[row];
            weight[row] = fixed::weight_of_tile(lead + static_cast<float>(v_lead));
            l[row] = fused(static_cast<float>(pair.sum[row]), fixed::weight_of_tile(lead), l[row]);
            h[row] += weight[row];
        }
    }

    __device__ __forceinline__ void add_values(int part, const Levels<kSums>& y, const float (&weight)[kRowsEach]) {
#pragma unroll
        for (int i = 0; i < kSums; ++i)
            o[part][i] = fused(static_cast<float>(y.combined(i)), weight[i / 2 % 2], o[part][i]);
    }

    __device__ void store(int row, float* out, int dim, fixed::Factors scale) const {
        const float inverse = 1.0f / l[row];
        const int first = static_cast<int>(threadIdx.x) % 4 * 2;
        const bool pairs = dim % 4 == 0;
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int group = 0; group < kSums / 4; ++group) {
                const int column = part * 2 * kSums + 8 * group + first;
                const float a = fixed::fixed_result(o[part][4 * group + 2 * row], h[row], inverse, scale);
                const float b = fixed::fixed_result(o[part][4 * group + 2 * row + 1], h[row], inverse, scale);
                if (pairs) {
                    if (column < dim) *reinterpret_cast<float2*>(out + column) = make_float2(a, b);
                } else {
                    if (column < dim) out[column] = a;
                    if (column + 1 < dim) out[column + 1] = b;
                }
            }
    }
};

// A group's part of the problem.
struct GroupRows {
    int64_t batch;
    int64_t first; // of the batch's query rows
    int rows;      // that exist, up to 64

    // Group `group` of block `block`, where a block has kGroups of them.
    template <int kGroups>
    static __device__ GroupRows of(const KernelArgs& args, int64_t block, int group) {
        const int64_t blocks = blocks_of_batch<kGroups>(args);
        const int64_t first = args.first_query + (block % blocks * kGroups + group) * kGroupRows;
        const int64_t left = min(args.end_query, args.tokens) - first;
        return {block / blocks, first, static_cast<int>(max(int64_t{0}, min(int64_t{kGroupRows}, left)))};
    }

    template <int kGroups>
    static __host__ __device__ int64_t blocks_of_batch(const KernelArgs& args) {
        return (queries_of(args) + kGroups * kGroupRows - 1) / (kGroups * kGroupRows);
    }

    __device__ const float* queries(const KernelArgs& args) const {
        return args.qkv + static_cast<size_t>(3 * batch * args.tokens + first) * args.qkv_stride;
    }
    __device__ float* output(const KernelArgs& args, int row) const {
        return args.out + static_cast<size_t>(batch * args.tokens + first + row) * args.out_stride;
    }
};

// The work on a group's rows. Products takes the products of digits: scores(), values(), and scales() of a tile.
template <class Products>
struct Group {
    static constexpr int kParts = Products::Layout::kParts;
    static constexpr int kSums = Products::Layout::kColumns / 2; // of a thread: two rows

    Products products;
    int least_exponent;     // of V in the batch
    const int* q_exponents; // of the thread's first row, in shared memory; the other's are 8 further on
    RowPair pair;
    Running<kParts, kSums> running;

    __device__ Group(const Products& p, const int* q, int least)
        : products(p), least_exponent(least), q_exponents(q + row_in_group(0)) {
        running.clear();
    }

    static __device__ int row_in_group(int row) {
        return static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4 +
               8 * row;
    }

    // Tiles [0, count) of a batch; of those before `ordinary` all keys exist and all weights are ordinary.
    __device__ __forceinline__ void attend_all(unsigned ordinary, unsigned count, int64_t tokens) {
        for (unsigned tile = 0; tile < ordinary; ++tile) attend(tile, OrdinaryWeights{});
        for (unsigned tile = ordinary; tile < count; ++tile) {
            const auto keys = static_cast<int>(min(int64_t{kTileKeys}, tokens - int64_t{tile} * kTileKeys));
            attend(tile, AnyWeights{keys - static_cast<int>(threadIdx.x) % 4 * 2, {}, {}});
        }
    }

    template <class Weights>
    __device__ __forceinline__ void attend(unsigned tile, Weights weights) {
        int32_t x[kScoresEach];
        products.scores(tile, x);
        const TileScales scales = products.scales(tile);
        const int q_exponent[kRowsEach] = {q_exponents[0], q_exponents[8]};
        weights.begin(x, q_exponent, scales.k_exponent, pair);
        WeightPlanes planes;
        clear_sums(pair);
        form_half(x, 0, pair, weights, planes.half[0]);
        form_half(x, 1, pair, weights, planes.half[1]);
        close_sums(pair);
        float weight[kRowsEach];
        running.add_weights(weights, pair, least_exponent - scales.v_exponent, weight);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            Levels<kSums> y;
            products.values(tile, part, planes, y);
            running.add_values(part, y, weight);
        }
    }

    __device__ void store(const KernelArgs& args, const GroupRows& where) const {
        const fixed::Factors scale = fixed::factors(24 - least_exponent);
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row)
            if (row_in_group(row) < where.rows)
                running.store(row, where.output(args, row_in_group(row)), args.dim, scale);
    }
};

} // namespace hw4::gpu::fixed_point
