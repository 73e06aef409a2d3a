// A warp or a block for each row, four columns of each thread at a time: column e of a segment belongs to lane e / 4 %
// 32, which is what ROW-SUM asks for (orders.h). Rows whose width is no multiple of 4 are read one float at a time,
// with zeros beyond their end.
#include "src/step/gpu/rows.h"

#include <algorithm>
#include <string>

#include "src/contracts/rope.h"
#include "src/gpu/common/warp.cuh"
#include "src/gpu/device/check.h"
#include "src/step/orders.h"

namespace hw4::step {
namespace {

using gpu::kAllLanes;
using gpu::kWarpSize;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

__device__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ int warp() { return static_cast<int>(threadIdx.x) / kWarpSize; }

struct Four {
    float x[4];
};

// Four columns of a row, those beyond its end as `pad`. Wide: the row begins at a multiple of 16 bytes and its width is
// a multiple of 4.
template <bool kWide>
__device__ __forceinline__ Four load(const float* row, int64_t column, int64_t width, float pad = 0.0f) {
    Four four;
    if (kWide) {
        const float4 x = *reinterpret_cast<const float4*>(row + column);
        four = {{x.x, x.y, x.z, x.w}};
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) four.x[i] = column + i < width ? row[column + i] : pad;
    }
    return four;
}

template <bool kWide>
__device__ __forceinline__ void store(float* row, int64_t column, int64_t width, const Four& four) {
    if (kWide) {
        *reinterpret_cast<float4*>(row + column) = make_float4(four.x[0], four.x[1], four.x[2], four.x[3]);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (column + i < width) row[column + i] = four.x[i];
    }
}

// what(i) for each of four.
template <class What>
__device__ __forceinline__ Four each(const What& what) {
    return {{what(0), what(1), what(2), what(3)}};
}

// Every lane gets the sum of a segment.
__device__ __forceinline__ float sum_of_lanes(const Four& chains) {
    float sum = (chains.x[0] + chains.x[1]) + (chains.x[2] + chains.x[3]);
#pragma unroll
    for (int half = kWarpSize / 2; half > 0; half /= 2) sum = sum + __shfl_xor_sync(kAllLanes, sum, half);
    return sum;
}

// The chains of a warp's segment: term(column, chains) adds four columns'.
template <class Term>
__device__ __forceinline__ Four chains_of_segment(int64_t segment, int64_t width, const Term& term) {
    Four chains = {};
#pragma unroll
    for (int64_t i = 0; i < kRowSegment; i += kRowChains) {
        const int64_t column = segment * kRowSegment + i + 4 * lane();
        if (column < width) term(column, chains);
    }
    return chains;
}

template <class Term>
__device__ __forceinline__ float row_sum_of_warp(int64_t width, const Term& term) {
    float sum = 0;
    for (int64_t segment = 0; segment * kRowSegment < width; ++segment)
        sum = sum + sum_of_lanes(chains_of_segment(segment, width, term));
    return sum;
}

// work(column) for each four columns of a row, by the threads of a warp or a block.
template <class Work>
__device__ __forceinline__ void each_four(int64_t width, int64_t thread, int64_t threads, const Work& work) {
#pragma unroll 4
    for (int64_t column = 4 * thread; column < width; column += 4 * threads) work(column);
}

// ---- Element by element

template <class Work>
__device__ __forceinline__ void each_four_of_all(int64_t count, const Work& work) {
    const int64_t column = 4 * (int64_t{blockIdx.x} * kThreads + threadIdx.x);
    if (column < count) work(column);
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads) fill_floats(float* to, float value, int64_t count) {
    each_four_of_all(count, [&](int64_t at) { store<kWide>(to, at, count, {{value, value, value, value}}); });
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads) add_floats(float* a, const float* b, int64_t count) {
    each_four_of_all(count, [&](int64_t at) {
        const Four x = load<kWide>(a, at, count), y = load<kWide>(b, at, count);
        store<kWide>(a, at, count, each([&](int i) { return x.x[i] + y.x[i]; }));
    });
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    update(float* p, const float* g, float* m, float* v, int64_t count, const Adam step) {
    each_four_of_all(count, [&](int64_t at) {
        Four x = load<kWide>(p, at, count), first = load<kWide>(m, at, count), second = load<kWide>(v, at, count);
        const Four gradient = load<kWide>(g, at, count);
#pragma unroll
        for (int i = 0; i < 4; ++i) hw4::step::adamw(x.x[i], gradient.x[i], first.x[i], second.x[i], step);
        store<kWide>(p, at, count, x);
        store<kWide>(m, at, count, first);
        store<kWide>(v, at, count, second);
    });
}

__global__ void __launch_bounds__(kThreads) square_segments(const float* x, int64_t segments, float* sums) {
    const int64_t segment = int64_t{blockIdx.x} * kWarps + warp();
    if (segment >= segments) return;
    const float sum = sum_of_lanes(chains_of_segment(segment, segments * kRowSegment, [&](int64_t e, Four& chains) {
        const Four four = load<true>(x, e, 0);
#pragma unroll
        for (int i = 0; i < 4; ++i) chains.x[i] = fused(four.x[i], four.x[i], chains.x[i]);
    }));
    if (lane() == 0) sums[segment] = sum;
}

// ---- Embedding

template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    copy_rows(const int32_t* tokens, const float* table, float* x, int64_t width) {
    const float* const from = table + tokens[blockIdx.x] * width;
    float* const to = x + int64_t{blockIdx.x} * width;
    each_four(width, threadIdx.x, kThreads,
              [&](int64_t column) { store<kWide>(to, column, width, load<kWide>(from, column, width)); });
}

// A block for each leaf: the places of a token in one sequence.
template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    sum_places(const EmbeddingLeaves of, const float* dx, float* leaves, int64_t width) {
    const int first = of.begins[blockIdx.x], end = of.begins[blockIdx.x + 1];
    each_four(width, threadIdx.x, kThreads, [&](int64_t column) {
        Four total = {}, chain = {};
#pragma unroll 4
        for (int i = first; i < end; ++i) {
            const int32_t place = of.places[i];
            const bool begins = place < 0;
            const Four x = load<kWide>(dx + int64_t{begins ? ~place : place} * width, column, width);
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                total.x[c] = begins ? total.x[c] + chain.x[c] : total.x[c];
                chain.x[c] = (begins ? 0.0f : chain.x[c]) + x.x[c];
            }
        }
        store<kWide>(leaves + int64_t{blockIdx.x} * width, column, width,
                     each([&](int c) { return total.x[c] + chain.x[c]; }));
    });
}

// A block for each token: its leaves in the tree. Sequences without the token have leaves of zeros, which change
// nothing.
template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    join_places(const EmbeddingLeaves of, float* leaves, float* d_table, int64_t width) {
    const int32_t* const token = of.tokens + 3 * int64_t{blockIdx.x};
    each_four(width, threadIdx.x, kThreads, [&](int64_t column) {
        for (int64_t join = token[2]; join < token[5]; ++join) {
            float* const left = leaves + of.joins[2 * join] * width;
            const Four x = load<kWide>(left, column, width);
            const Four y = load<kWide>(leaves + of.joins[2 * join + 1] * width, column, width);
            store<kWide>(left, column, width, each([&](int c) { return x.x[c] + y.x[c]; }));
        }
        store<kWide>(d_table + token[0] * width, column, width, load<kWide>(leaves + token[1] * width, column, width));
    });
}

// ---- RMSNorm, a warp for each row

template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    norm_rows(const float* all_x, const float* gain, float* all_y, float* factors, int64_t rows, int64_t width) {
    const int64_t row = int64_t{blockIdx.x} * kWarps + warp();
    if (row >= rows) return;
    const float* const x = all_x + row * width;
    const float squares = row_sum_of_warp(width, [&](int64_t column, Four& chains) {
        const Four four = load<kWide>(x, column, width);
#pragma unroll
        for (int i = 0; i < 4; ++i) chains.x[i] = fused(four.x[i], four.x[i], chains.x[i]);
    });
    const float r = norm_factor(squares, inverse_of_width(width));
    if (lane() == 0) factors[row] = r;
    each_four(width, lane(), kWarpSize, [&](int64_t column) {
        const Four four = load<kWide>(x, column, width), by = load<kWide>(gain, column, width);
        store<kWide>(all_y + row * width, column, width,
                     each([&](int i) { return normalized(four.x[i], r, by.x[i]); }));
    });
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    norm_back_rows(const float* all_x, const float* gain, const float* factors, const float* all_dy, float* all_dx,
                   int64_t rows, int64_t width) {
    const int64_t row = int64_t{blockIdx.x} * kWarps + warp();
    if (row >= rows) return;
    const float* const x = all_x + row * width;
    const float* const dy = all_dy + row * width;
    float* const dx = all_dx + row * width;
    const auto h_of = [&](int64_t column) {
        const Four four = load<kWide>(dy, column, width), by = load<kWide>(gain, column, width);
        return each([&](int i) { return four.x[i] * by.x[i]; });
    };
    const float sum = row_sum_of_warp(width, [&](int64_t column, Four& chains) {
        const Four four = load<kWide>(x, column, width), h = h_of(column);
#pragma unroll
        for (int i = 0; i < 4; ++i) chains.x[i] = fused(h.x[i], four.x[i], chains.x[i]);
    });
    const float r = factors[row], k = norm_back_factor(r, sum, inverse_of_width(width));
    each_four(width, lane(), kWarpSize, [&](int64_t column) {
        const Four four = load<kWide>(x, column, width), h = h_of(column), before = load<kWide>(dx, column, width);
        store<kWide>(dx, column, width,
                     each([&](int i) { return before.x[i] + norm_gradient(four.x[i], h.x[i], r, k); }));
    });
}

// A block sums 8 columns over all tokens, so that one launch does. 8 floats are what memory gives at least. A thread
// sums a chain of 32 tokens of a column: all its numbers are on their way before it needs the first.
constexpr int kGainColumns = 8;
constexpr int kGainChains = 64; // at once
constexpr int kMostNodes = 32;  // of the tree, that wait for their sibling

__global__ void __launch_bounds__(kGainColumns* kGainChains)
    sum_gains(const float* x, const float* factors, const float* dy, float* d_gain, int sequences, int context,
              int64_t width) {
    __shared__ float totals[2][kGainChains][kGainColumns];
    __shared__ float nodes[kMostNodes][kGainColumns];
    const int own_column = static_cast<int>(threadIdx.x) % kGainColumns;
    const int own_chain = static_cast<int>(threadIdx.x) / kGainColumns;
    const int64_t column = int64_t{blockIdx.x} * kGainColumns + own_column;
    const int chains_of_leaf = static_cast<int>(parts(context, kChain)), chains = sequences * chains_of_leaf;
    float leaf = 0;
    int sequence = 0, waiting = 0, left = chains_of_leaf;
    for (int first = 0, buffer = 0; first < chains; first += kGainChains, buffer ^= 1) {
        const int chain = min(first + own_chain, chains - 1), begin = chain % chains_of_leaf * static_cast<int>(kChain);
        const int tokens = context - begin;
        const int64_t token = int64_t{chain / chains_of_leaf} * context + begin;
        const int64_t at = token * width + min(column, width - 1); // absent columns are computed, not written
        float from_x[kChain], from_dy[kChain], r[kChain / kGainColumns];
#pragma unroll
        for (int i = 0; i < kChain / kGainColumns; ++i) {
            const int t = i * kGainColumns + own_column;
            r[i] = t < tokens ? factors[token + t] : 0.0f;
        }
#pragma unroll
        for (int t = 0; t < kChain; ++t) {
            from_x[t] = t < tokens ? x[at + t * width] : 0.0f;
            from_dy[t] = t < tokens ? dy[at + t * width] : 0.0f;
        }
        float total = 0;
#pragma unroll
        for (int t = 0; t < kChain; ++t) {
            const float factor = __shfl_sync(kAllLanes, r[t / kGainColumns], t % kGainColumns, kGainColumns);
            total = fused(from_dy[t], from_x[t] * factor, total);
        }
        totals[buffer][own_chain][own_column] = total;
        __syncthreads();
        if (own_chain != 0) continue;
        for (int i = 0; i < min(kGainChains, chains - first);) {
            const int end = min(i + left, min(kGainChains, chains - first));
            left -= end - i;
#pragma unroll 16
            for (; i < end; ++i) leaf = leaf + totals[buffer][i][own_column];
            if (left > 0) break;
            for (int joins = joins_after(sequence); joins > 0; --joins) leaf = nodes[--waiting][own_column] + leaf;
            nodes[waiting++][own_column] = leaf;
            leaf = 0;
            left = chains_of_leaf;
            ++sequence;
        }
    }
    if (own_chain != 0 || column >= width) return;
    float sum = nodes[--waiting][own_column];
    while (waiting > 0) sum = nodes[--waiting][own_column] + sum;
    d_gain[column] = sum;
}

// ---- RoPE and SwiGLU, a block for each row

__global__ void __launch_bounds__(kThreads)
    rotate_rows(float* qkv, const float* table, int64_t context, int heads, int head_width, bool back) {
    float* const row = qkv + int64_t{blockIdx.x} * 3 * heads * head_width;
    const float* const of_token = table + blockIdx.x % context * head_width;
    const int pairs = head_width / 2; // of a head
    for (int i = static_cast<int>(threadIdx.x); i < 2 * heads * pairs; i += kThreads) {
        const int pair = i % pairs;
        float2* const at = reinterpret_cast<float2*>(row + i / pairs * head_width) + pair;
        const float2 x = *at, turn = reinterpret_cast<const float2*>(of_token)[pair];
        const Rotated turned = hw4::rotate(x.x, x.y, turn.x, back ? -turn.y : turn.y);
        *at = make_float2(turned.x, turned.y);
    }
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads) swiglu_rows(const float* gate_up, float* h, int64_t hidden) {
    const float* const u = gate_up + int64_t{blockIdx.x} * 2 * hidden;
    each_four(hidden, threadIdx.x, kThreads, [&](int64_t column) {
        const Four x = load<kWide>(u, column, hidden), y = load<kWide>(u + hidden, column, hidden);
        store<kWide>(h + int64_t{blockIdx.x} * hidden, column, hidden,
                     each([&](int i) { return hw4::step::swiglu(x.x[i], y.x[i]); }));
    });
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    swiglu_back_rows(const float* gate_up, const float* all_dh, float* d_gate_up, int64_t hidden) {
    const float* const u = gate_up + int64_t{blockIdx.x} * 2 * hidden;
    const float* const dh = all_dh + int64_t{blockIdx.x} * hidden;
    float* const du = d_gate_up + int64_t{blockIdx.x} * 2 * hidden;
    each_four(hidden, threadIdx.x, kThreads, [&](int64_t column) {
        const Four x = load<kWide>(u, column, hidden), y = load<kWide>(u + hidden, column, hidden);
        const Four d = load<kWide>(dh, column, hidden);
        Four of_u, of_v;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const SwigluGradient gradient = swiglu_gradient(x.x[i], y.x[i], d.x[i]);
            of_u.x[i] = gradient.du;
            of_v.x[i] = gradient.dv;
        }
        store<kWide>(du, column, hidden, of_u);
        store<kWide>(du + hidden, column, hidden, of_v);
    });
}

// ---- Cross entropy, a block for each row of logits, a warp for each segment. Where every segment has a warp, the row
// stays in registers; else the kernel reads the row, and computes its weights, once more where it needs them.

constexpr int kMostLossWarps = 16;
constexpr int kMostSegments = 1024; // of a row: a vocabulary of 2^20

template <bool kWide, bool kInRegisters>
__global__ void __launch_bounds__(kMostLossWarps* kWarpSize, 2)
    cross_entropy_rows(float* logits, const int32_t* targets, double* losses, int vocabulary, float share) {
    __shared__ float largest[kMostLossWarps];
    __shared__ float sums[kMostSegments];
    constexpr int kParts = kRowSegment / kRowChains; // of a lane
    float* const z = logits + int64_t{blockIdx.x} * vocabulary;
    const int warps = static_cast<int>(blockDim.x) / kWarpSize;
    const int segments = static_cast<int>(parts(vocabulary, kRowSegment));
    const int target = targets[blockIdx.x];
    const float target_logit = z[target];

    Four row[kParts];
    const auto each_part = [&](int segment, const auto& work) {
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
            const int column = static_cast<int>(segment * kRowSegment + i * kRowChains) + 4 * lane();
            if (column < vocabulary) work(row[i], column);
        }
    };
    const auto read = [&](int segment) {
        each_part(segment, [&](Four& of, int column) { of = load<kWide>(z, column, vocabulary, -HUGE_VALF); });
    };
    const auto each_segment = [&](const auto& work) {
        if constexpr (kInRegisters)
            work(warp());
        else
            for (int segment = warp(); segment < segments; segment += warps) work(segment);
    };

    float most = -HUGE_VALF;
    each_segment([&](int segment) {
        read(segment);
        each_part(segment, [&](const Four& of, int) {
#pragma unroll
            for (int i = 0; i < 4; ++i) most = larger(most, of.x[i]);
        });
    });
    most = gpu::warp_max(most);
    if (lane() == 0) largest[warp()] = most;
    __syncthreads();
    for (int i = 0; i < warps; ++i) most = larger(most, largest[i]);
    const LogitUnit unit = logit_unit(most);
    const auto weigh = [&](int segment) {
        if (!kInRegisters) read(segment);
        each_part(segment, [&](Four& of, int) { of = each([&](int i) { return unit.weight(of.x[i]); }); });
    };

    each_segment([&](int segment) {
        weigh(segment);
        Four chains = {};
        each_part(segment, [&](const Four& of, int column) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (kWide || column + i < vocabulary) chains.x[i] = chains.x[i] + of.x[i];
        });
        const float sum = sum_of_lanes(chains);
        if (lane() == 0) sums[segment] = sum;
    });
    __syncthreads(); // also: the target's logit is read before its gradient takes its place
    float l = 0;
    for (int segment = 0; segment < segments; ++segment) l = l + sums[segment];
    const float inverse_l = quotient(1.0f, l);

    each_segment([&](int segment) {
        if (!kInRegisters) weigh(segment);
        each_part(segment, [&](const Four& of, int column) {
            store<kWide>(z, column, vocabulary,
                         each([&](int i) { return logit_gradient(of.x[i], inverse_l, column + i == target, share); }));
        });
    });
    if (threadIdx.x == 0) losses[blockIdx.x] = cross_entropy_loss(unit, l, target_logit);
}

// ---- Launches

// Rows of that width, from all of these on, can be read by four floats.
template <class... Pointers>
bool by_four(int64_t width, const Pointers*... at) {
    return width % 4 == 0 && (reinterpret_cast<uintptr_t>(at) | ...) % 16 == 0;
}

struct Blocks {
    cudaStream_t stream;
    int64_t count;
    unsigned threads = kThreads;
};

// No blocks, for a rank whose shard is empty, are no launch.
template <class... Of, class... Given>
void launch(const char* call, void (*kernel)(Of...), const Blocks& blocks, const Given&... given) {
    if (blocks.count == 0) return;
    kernel<<<static_cast<unsigned>(blocks.count), blocks.threads, 0, blocks.stream>>>(given...);
    gpu::check(HW4_CUDA_STATUS(cudaGetLastError()), call, __FILE__, __LINE__);
}
#define HW4_LAUNCH(kernel, wide, ...) launch("launch of " #kernel, (wide) ? kernel<true> : kernel<false>, __VA_ARGS__)

} // namespace

void RowKernels::fill(float* to, float value, int64_t count) const {
    HW4_LAUNCH(fill_floats, by_four(count, to), Blocks{stream_, parts(count, 4 * kThreads)}, to, value, count);
}

void RowKernels::add(float* a, const float* b, int64_t count) const {
    HW4_LAUNCH(add_floats, by_four(count, a, b), Blocks{stream_, parts(count, 4 * kThreads)}, a, b, count);
}

void RowKernels::adamw(float* p, const float* g, float* m, float* v, int64_t count, const Adam& step) const {
    HW4_LAUNCH(update, by_four(count, p, g, m, v), Blocks{stream_, parts(count, 4 * kThreads)}, p, g, m, v, count,
               step);
}

void RowKernels::squares(const float* x, int64_t segments, float* sums) const {
    launch("launch of square_segments", square_segments, Blocks{stream_, parts(segments, kWarps)}, x, segments, sums);
}

void RowKernels::embed(const int32_t* tokens, const float* table, float* x, int64_t rows, int64_t width) const {
    HW4_LAUNCH(copy_rows, by_four(width, table, x), Blocks{stream_, parts(rows, 1)}, tokens, table, x, width);
}

void RowKernels::embed_back(const EmbeddingLeaves& of, const float* dx, float* leaves, float* d_table,
                            int64_t width) const {
    const bool wide = by_four(width, dx, leaves, d_table);
    HW4_LAUNCH(sum_places, wide, Blocks{stream_, parts(of.leaf_count, 1)}, of, dx, leaves, width);
    HW4_LAUNCH(join_places, wide, Blocks{stream_, parts(of.token_count, 1)}, of, leaves, d_table, width);
}

void RowKernels::norm(const float* x, const float* gain, float* y, float* factors, int64_t rows, int64_t width) const {
    const Blocks blocks{stream_, parts(rows, kWarps)};
    HW4_LAUNCH(norm_rows, by_four(width, x, gain, y), blocks, x, gain, y, factors, rows, width);
}

void RowKernels::norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx,
                           int64_t rows, int64_t width) const {
    const Blocks blocks{stream_, parts(rows, kWarps)};
    HW4_LAUNCH(norm_back_rows, by_four(width, x, gain, dy, dx), blocks, x, gain, factors, dy, dx, rows, width);
}

void RowKernels::norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                           int64_t context, int64_t width) const {
    const Blocks blocks{stream_, parts(width, kGainColumns), kGainColumns * kGainChains};
    launch("launch of sum_gains", sum_gains, blocks, x, factors, dy, d_gain, static_cast<int>(sequences),
           static_cast<int>(context), width);
}

void RowKernels::rotate(float* qkv, const float* table, int64_t rows, int64_t context, int64_t heads,
                        int64_t head_width, bool back) const {
    launch("launch of rotate_rows", rotate_rows, Blocks{stream_, parts(rows, 1)}, qkv, table, context,
           static_cast<int>(heads), static_cast<int>(head_width), back);
}

void RowKernels::swiglu(const float* gate_up, float* h, int64_t rows, int64_t hidden) const {
    HW4_LAUNCH(swiglu_rows, by_four(hidden, gate_up, h), Blocks{stream_, parts(rows, 1)}, gate_up, h, hidden);
}

void RowKernels::swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows,
                             int64_t hidden) const {
    const bool wide = by_four(hidden, gate_up, dh, d_gate_up);
    HW4_LAUNCH(swiglu_back_rows, wide, Blocks{stream_, parts(rows, 1)}, gate_up, dh, d_gate_up, hidden);
}

void RowKernels::cross_entropy(float* logits, const int32_t* targets, double* losses, int64_t rows, int64_t vocabulary,
                               float share) const {
    const int64_t segments = parts(vocabulary, kRowSegment);
    if (segments > kMostSegments)
        throw Error(ExitCode::bad_data, "a vocabulary of " + std::to_string(vocabulary) + " tokens, need at most " +
                                            std::to_string(kMostSegments * kRowSegment));
    const unsigned threads = static_cast<unsigned>(std::min<int64_t>(segments, kMostLossWarps)) * kWarpSize;
    const Blocks blocks{stream_, parts(rows, 1), threads};
    const bool wide = by_four(vocabulary, logits);
    const auto kernel = segments > kMostLossWarps
                            ? (wide ? cross_entropy_rows<true, false> : cross_entropy_rows<false, false>)
                            : (wide ? cross_entropy_rows<true, true> : cross_entropy_rows<false, true>);
    launch("launch of cross_entropy_rows", kernel, blocks, logits, targets, losses, static_cast<int>(vocabulary),
           share);
}

} // namespace hw4::step
