// What a warp of split_keys computes of one segment: scores, weights, and weights times values.
#pragma once

#include "src/gpu/f32/forward/split_copies.cuh"

namespace hw4::gpu::split {

// What a segment does to a row: lane i has row i.
template <class T>
struct Raise {
    typename T::Facts facts[kTiles]; // of the references that the tiles' weights are relative to
    float raised[kTiles];            // factors of the running sums before the tile
    float rescale;                   // factor of the totals before the sums are added
    float largest[kTiles];           // the tiles' largest scores, if one raises a reference
    bool any;                        // whether any row's reference is raised
};

template <class T>
class Segment {
    using E = typename T::E;

public:
    __device__ Segment(typename T::Warp& memory, typename T::State& state)
        : copies(memory.stages), state_(state), scores_(memory.scores) {}

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }

    // The scores of a segment's keys, `groups` groups of them: then a lane has those of key `lane` of each tile.
    __device__ __forceinline__ void compute_scores(const Args& args, int groups) {
#pragma unroll 1
        for (int group = 0; group < groups; ++group) {
            float sums[T::kOwnKeys][T::kRows];
            copies.template wait<T::kGroupParts>();
            add_products(sums);
            copies.template pass<T::kGroupParts>(args);
            exchange(sums, group);
        }
    }

    __device__ __forceinline__ float score(int tile, int row) const { return s_[tile][row]; }

    // The largest score of the keys that a row sees.
    __device__ __forceinline__ float largest(int tile, int row, int first_key, int window) const {
        return warp_max(sees_key(row, first_key + tile * kKeyTile + lane(), window) ? s_[tile][row] : -HUGE_VALF);
    }

    // Whether a row sees the lane's key of a tile of the segment.
    __device__ __forceinline__ bool sees(int row, int segment, int tile, int window) const {
        return sees_key(row, segment * kSegmentKeys + tile * kKeyTile + lane(), window);
    }

    // Whether every row sees all keys of the segment.
    __device__ __forceinline__ bool all_seen(int segment, int window) const {
        return (segment + 1) * kSegmentKeys <= state_.least_seen && segment * kSegmentKeys >= state_.most_seen - window;
    }

    // The weights, for all of the warp.
    template <bool kAllSeen>
    __device__ __forceinline__ void weigh(const Args& args, int segment, const Raise<T>& raise) {
#pragma unroll
        for (int row = 0; row < T::kRows; ++row) {
            float origin = 0.0f, floor = 0.0f, bias = 0.0f;
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) {
                if (tile == 0 || raise.any) {
                    const typename T::Facts& facts = raise.facts[tile];
                    origin = __shfl_sync(kAllLanes, facts.origin, row);
                    floor = __shfl_sync(kAllLanes, facts.floor, row);
                    bias = __shfl_sync(kAllLanes, facts.bias, row);
                }
                const float weight = exp2_scaled(larger(s_[tile][row] - origin, floor), args.scale.c, bias);
                s_[tile][row] = kAllSeen || sees(row, segment, tile, args.window) ? weight : 0.0f;
            }
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int row = 0; row < T::kRows; ++row)
                scores_[row * kSegmentKeys + tile * kKeyTile + lane()] = s_[tile][row];
        __syncwarp();
    }

    // Calls work(i, row, running sum of the row) for the running sums of the lane.
    template <class F>
    static __device__ __forceinline__ void each_sum(const F& work) {
#pragma unroll
        for (int i = 0; i < T::kLaneSums; ++i) {
            const int index = i * kWarpSize + lane();
            if (T::kSums % kWarpSize == 0 || index < T::kSums) work(i, index / kSumLanes, index % kSumLanes);
        }
    }

    // What the tiles add to the running sums of the lane.
    __device__ __forceinline__ void add_weights(float (&shares)[kTiles][T::kLaneSums]) const {
        each_sum([&](int i, int row, int sum) {
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) {
                const float4 p = *reinterpret_cast<const float4*>(
                    &scores_[row * kSegmentKeys + tile * kKeyTile + sum * hw4::kLaneKeys]);
                shares[tile][i] = ((p.x + p.y) + p.z) + p.w;
            }
        });
    }

    // Weights times values, in the order of the keys.
    __device__ __forceinline__ void add_values(const Args& args, const Raise<T>& raise) {
#pragma unroll
        for (int row = 0; row < T::kRows; ++row)
#pragma unroll
            for (int x = 0; x < T::kLaneColumns; ++x) o_[row][x] = 0.0f;
#pragma unroll 1
        for (int part = 0; part < T::kParts; ++part) {
            if (raise.any && part == T::kParts / kTiles) {
#pragma unroll
                for (int row = 0; row < T::kRows; ++row) {
                    const float factor = __shfl_sync(kAllLanes, raise.raised[kTiles - 1], row);
#pragma unroll
                    for (int x = 0; x < T::kLaneColumns; ++x) o_[row][x] *= factor;
                }
            }
            copies.template wait<1>();
            const E* const v = copies.part(0);
#pragma unroll(T::kRows > 4 ? 1 : 2)
            for (int eight = 0; eight < T::kPartKeys; eight += 8)
                add_eight(v + eight * T::kDim, scores_ + part * T::kPartKeys + eight);
            copies.template pass<1>(args);
        }
    }

    // Stores the sums of all rows, or adds them to the totals, each times its row's factor.
    __device__ __forceinline__ void store_sums(float* to) const {
        each_piece([&](int row, int column, const float(&o)[kStored]) { store(to + row * T::kDim + column, o); });
    }
    __device__ __forceinline__ void add_sums(const Raise<T>& raise) const {
        each_piece([&](int row, int column, const float(&o)[kStored]) {
            float totals[kStored];
            load_elements(totals, &state_.totals[row][column]);
            const float factor = raise.any ? __shfl_sync(kAllLanes, raise.rescale, row) : 1.0f;
#pragma unroll
            for (int x = 0; x < kStored; ++x) totals[x] = fused(totals[x], factor, o[x]);
            store(&state_.totals[row][column], totals);
        });
    }

    static constexpr int kStored = T::kSpanColumns < 4 ? T::kSpanColumns : 4;

    // Calls work(row, column, sums of kStored columns from there on).
    template <class F>
    __device__ __forceinline__ void each_piece(const F& work) const {
#pragma unroll
        for (int row = 0; row < T::kRows; ++row)
#pragma unroll
            for (int i = 0; i < T::kLaneColumns; i += kStored) {
                float o[kStored];
#pragma unroll
                for (int x = 0; x < kStored; ++x) o[x] = o_[row][i + x];
                work(row, span_column(i / T::kSpanColumns) + i % T::kSpanColumns, o);
            }
    }

    Copies<T> copies;

private:
    // For a key after the last that the row sees, the difference is below 0 and wraps.
    __device__ __forceinline__ bool sees_key(int row, int key, int window) const {
        return static_cast<unsigned>(state_.rows[row].seen - 1 - key) < static_cast<unsigned>(window);
    }

    static_assert(T::kParts % kTiles == 0 && T::kPartKeys % 8 == 0 && T::kSpanColumns % 2 == 0);

    static __device__ __forceinline__ void store(float* to, const float (&x)[kStored]) {
        if constexpr (kStored == 4)
            *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
        else
            *reinterpret_cast<float2*>(to) = make_float2(x[0], x[1]);
    }

    static __device__ __forceinline__ int span_column(int span) {
        return span * kWarpSize * T::kSpanColumns + lane() * T::kSpanColumns;
    }

    // The chains of a lane's keys and chunk of columns, for all rows.
    __device__ __forceinline__ void add_products(float (&sums)[T::kOwnKeys][T::kRows]) const {
        const int first_key = lane() % T::kKeyLanes;
        const int chunk = lane() / T::kKeyLanes;
        const E* parts[T::kGroupParts];
#pragma unroll
        for (int i = 0; i < T::kGroupParts; ++i) parts[i] = copies.part(i);
#pragma unroll
        for (int i = 0; i < T::kOwnKeys; ++i)
#pragma unroll
            for (int row = 0; row < T::kRows; ++row) sums[i][row] = 0.0f;
#pragma unroll(T::kRows > 4 ? 1 : 2)
        for (int x = 0; x < kScoreColumns; x += T::kPiece) {
            float keys[T::kOwnKeys][T::kPiece];
#pragma unroll
            for (int i = 0; i < T::kOwnKeys; ++i)
                load_elements(keys[i], parts[i * T::kKeyLanes / T::kPartKeys] +
                                           copies.place_of(first_key + i * T::kKeyLanes % T::kPartKeys,
                                                           chunk * kScoreColumns + x));
#pragma unroll
            for (int four = 0; four < T::kPiece; four += 4)
#pragma unroll
                for (int row = 0; row < T::kRows; ++row) {
                    const float4 of_q = *reinterpret_cast<const float4*>(state_.q[row][(x + four) / 4][chunk]);
                    const float q[4] = {of_q.x, of_q.y, of_q.z, of_q.w};
#pragma unroll
                    for (int j = 0; j < 4; ++j)
#pragma unroll
                        for (int i = 0; i < T::kOwnKeys; ++i)
                            sums[i][row] = fused(q[j], keys[i][four + j], sums[i][row]);
                }
        }
    }

    // Adds the chunks of each score, in a lane for a key: the lane of that key in its tile.
    __device__ __forceinline__ void exchange(const float (&sums)[T::kOwnKeys][T::kRows], int group) {
        using Scores = float[T::kWide];
        Scores* const scores = reinterpret_cast<Scores*>(scores_);
        constexpr int kTakes = T::kGroupKeys > kWarpSize ? T::kGroupKeys / kWarpSize : 1;
#pragma unroll
        for (int first_row = 0; first_row < T::kRows; first_row += T::kWide) {
            __syncwarp();
#pragma unroll
            for (int i = 0; i < T::kOwnKeys; ++i) {
                const int key = lane() % T::kKeyLanes + i * T::kKeyLanes;
                store_wide(scores[lane() / T::kKeyLanes * T::kGroupKeys + key], &sums[i][first_row]);
            }
            __syncwarp();
#pragma unroll
            for (int take = 0; take < kTakes; ++take) {
                const int key = (take * kWarpSize + lane()) % T::kGroupKeys;
                float sum[T::kWide];
                load_wide(sum, scores[key]);
#pragma unroll
                for (int chunk = 1; chunk < T::kChunks; ++chunk) {
                    float more[T::kWide];
                    load_wide(more, scores[chunk * T::kGroupKeys + key]);
#pragma unroll
                    for (int x = 0; x < T::kWide; ++x) sum[x] += more[x];
                }
#pragma unroll
                for (int tile = 0; tile < kTiles; ++tile) {
                    const bool here = kTakes > 1 ? tile == take : (tile * kKeyTile + lane()) / T::kGroupKeys == group;
#pragma unroll
                    for (int x = 0; x < T::kWide; ++x)
                        if (here) s_[tile][first_row + x] = sum[x];
                }
            }
        }
        __syncwarp();
    }

    // Eight keys' weights, rows kSegmentKeys apart, times their values.
    __device__ __forceinline__ void add_eight(const E* v, const float* weights) {
#pragma unroll
        for (int key = 0; key < 8; key += 4) {
            float values[4][T::kLaneColumns];
#pragma unroll
            for (int j = 0; j < 4; ++j)
#pragma unroll
                for (int span = 0; span < T::kSpans; ++span) {
                    float of_span[T::kSpanColumns];
                    load_elements(of_span, v + copies.place_of(key + j, span_column(span)));
#pragma unroll
                    for (int x = 0; x < T::kSpanColumns; ++x) values[j][span * T::kSpanColumns + x] = of_span[x];
                }
#pragma unroll
            for (int row = 0; row < T::kRows; ++row) {
                const float4 p = *reinterpret_cast<const float4*>(weights + row * kSegmentKeys + key);
                const float of_row[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
                for (int j = 0; j < 4; ++j)
#pragma unroll
                    for (int x = 0; x < T::kLaneColumns; ++x) o_[row][x] = fused(of_row[j], values[j][x], o_[row][x]);
            }
        }
    }

    static __device__ __forceinline__ void store_wide(float* to, const float* from) {
        if constexpr (T::kWide == 4)
            *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
        else
            *to = *from;
    }
    static __device__ __forceinline__ void load_wide(float (&to)[T::kWide], const float* from) {
        if constexpr (T::kWide == 4) {
            const float4 x = *reinterpret_cast<const float4*>(from);
            to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
        } else {
            to[0] = *from;
        }
    }

    typename T::State& state_;
    float* const scores_;
    float s_[kTiles][T::kRows];
    float o_[T::kRows][T::kLaneColumns];
};

} // namespace hw4::gpu::split
