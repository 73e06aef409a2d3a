// The embedding and its gradient: a block for each row, leaf or token.
#include "src/step/gpu/rows.cuh"

namespace hw4::step {
namespace {

// The block's threads call work(column) for each four columns of a row.
template <class Work>
__device__ __forceinline__ void each_four(int64_t width, const Work& work) {
#pragma unroll 4
    for (int64_t column = 4 * threadIdx.x; column < width; column += 4 * kThreads) work(column);
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    copy_rows(const int32_t* tokens, const float* table, float* x, int64_t width) {
    const float* const from = table + tokens[blockIdx.x] * width;
    float* const to = x + int64_t{blockIdx.x} * width;
    each_four(width, [&](int64_t column) { store<kWide>(to, column, width, load<kWide>(from, column, width)); });
}

// A block for each leaf: it sums over the places of a token in one sequence.
template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    sum_places(const EmbeddingLeaves of, const float* dx, float* leaves, int64_t width) {
    const int first = of.begins[blockIdx.x], end = of.begins[blockIdx.x + 1];
    each_four(width, [&](int64_t column) {
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

// A block for each token: it adds up the token's leaves in the tree. Sequences without the token would have leaves of
// zeros, which change nothing.
template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    join_places(const EmbeddingLeaves of, float* leaves, float* d_table, int64_t width) {
    const int32_t* const token = of.tokens + 3 * int64_t{blockIdx.x};
    each_four(width, [&](int64_t column) {
        for (int64_t join = token[2]; join < token[5]; ++join) {
            float* const left = leaves + of.joins[2 * join] * width;
            const Four x = load<kWide>(left, column, width);
            const Four y = load<kWide>(leaves + of.joins[2 * join + 1] * width, column, width);
            store<kWide>(left, column, width, each([&](int c) { return x.x[c] + y.x[c]; }));
        }
        store<kWide>(d_table + token[0] * width, column, width, load<kWide>(leaves + token[1] * width, column, width));
    });
}

} // namespace

void RowKernels::embed(const int32_t* tokens, const float* table, float* x, int64_t rows, int64_t width) const {
    HW4_LAUNCH(copy_rows, by_four(width, table, x), Blocks{stream_, rows}, tokens, table, x, width);
}

void RowKernels::embed_back(const EmbeddingLeaves& of, const float* dx, float* leaves, float* d_table,
                            int64_t width) const {
    const bool wide = by_four(width, dx, leaves, d_table);
    HW4_LAUNCH(sum_places, wide, Blocks{stream_, of.leaf_count}, of, dx, leaves, width);
    HW4_LAUNCH(join_places, wide, Blocks{stream_, of.token_count}, of, leaves, d_table, width);
}

} // namespace hw4::step
