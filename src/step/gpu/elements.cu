// Operations without sums, element by element.
#include "src/step/gpu/rows.cuh"

#include "src/contracts/rope.h"

namespace hw4::step {
namespace {

template <class Work>
__device__ __forceinline__ void each_four_of_all(int64_t count, const Work& work) {
    const int64_t column = 4 * (int64_t{blockIdx.x} * kThreads + threadIdx.x);
    if (column < count) work(column);
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

} // namespace

void RowKernels::add(float* a, const float* b, int64_t count) const {
    HW4_LAUNCH(add_floats, by_four(count, a, b), Blocks{stream_, parts(count, 4 * kThreads)}, a, b, count);
}

void RowKernels::adamw(float* p, const float* g, float* m, float* v, int64_t count, const Adam& step) const {
    HW4_LAUNCH(update, by_four(count, p, g, m, v), Blocks{stream_, parts(count, 4 * kThreads)}, p, g, m, v, count,
               step);
}

void RowKernels::rotate(float* qkv, const float* table, int64_t rows, int64_t context, int64_t heads,
                        int64_t head_width, bool back) const {
    launch("launch of rotate_rows", rotate_rows, Blocks{stream_, rows}, qkv, table, context, static_cast<int>(heads),
           static_cast<int>(head_width), back);
}

void RowKernels::swiglu(const float* gate_up, float* h, int64_t rows, int64_t hidden) const {
    HW4_LAUNCH(swiglu_rows, by_four(hidden, gate_up, h), Blocks{stream_, rows}, gate_up, h, hidden);
}

void RowKernels::swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows,
                             int64_t hidden) const {
    const bool wide = by_four(hidden, gate_up, dh, d_gate_up);
    HW4_LAUNCH(swiglu_back_rows, wide, Blocks{stream_, rows}, gate_up, dh, d_gate_up, hidden);
}

} // namespace hw4::step
