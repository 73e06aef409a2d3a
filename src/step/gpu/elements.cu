// Operations without sums: a thread for four columns of a row. A tensor without rows counts as one row.
#include "src/step/gpu/rows.cuh"

#include "src/contracts/rope.h"

namespace hw4::step {
namespace {

// Calls work(row, column) for the thread's four columns.
template <class Work>
__device__ __forceinline__ void own_four(int64_t rows, int64_t width, const Work& work) {
    const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x, fours = parts(width, 4);
    const int64_t row = rows == 1 ? thread >= fours : thread / fours;
    if (row < rows) work(row, 4 * (thread - row * fours));
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads) add_floats(float* a, const float* b, int64_t count) {
    own_four(1, count, [&](int64_t, int64_t at) {
        const Four x = load<kWide>(a, at, count), y = load<kWide>(b, at, count);
        store<kWide>(a, at, count, each([&](int i) { return x.x[i] + y.x[i]; }));
    });
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    update(float* p, const float* g, float* m, float* v, int64_t count, const Adam step) {
    own_four(1, count, [&](int64_t, int64_t at) {
        Four x = load<kWide>(p, at, count), first = load<kWide>(m, at, count), second = load<kWide>(v, at, count);
        const Four gradient = load<kWide>(g, at, count);
#pragma unroll
        for (int i = 0; i < 4; ++i) hw4::step::adamw(x.x[i], gradient.x[i], first.x[i], second.x[i], step);
        store<kWide>(p, at, count, x);
        store<kWide>(m, at, count, first);
        store<kWide>(v, at, count, second);
    });
}

// Rotates q and k of a row.
template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    rotate_rows(float* qkv, const float* table, int64_t rows, int64_t context, int width, int head_width, bool back) {
    own_four(rows, 2 * width, [&](int64_t row, int64_t column) {
        float* const at = qkv + row * 3 * width;
        Four x = load<kWide>(at, column, 2 * width);
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const int pair = (static_cast<int>(column) + i) % head_width;
            const float2 turn = *reinterpret_cast<const float2*>(table + row % context * head_width + pair);
            const Rotated turned = hw4::rotate(x.x[i], x.x[i + 1], turn.x, back ? -turn.y : turn.y);
            x.x[i] = turned.x;
            x.x[i + 1] = turned.y;
        }
        store<kWide>(at, column, 2 * width, x);
    });
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads) swiglu_rows(const float* gate_up, float* h, int64_t rows, int64_t hidden) {
    own_four(rows, hidden, [&](int64_t row, int64_t column) {
        const float* const u = gate_up + row * 2 * hidden;
        const Four x = load<kWide>(u, column, hidden), y = load<kWide>(u + hidden, column, hidden);
        store<kWide>(h + row * hidden, column, hidden, each([&](int i) { return hw4::step::swiglu(x.x[i], y.x[i]); }));
    });
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads)
    swiglu_back_rows(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows, int64_t hidden) {
    own_four(rows, hidden, [&](int64_t row, int64_t column) {
        const float* const u = gate_up + row * 2 * hidden;
        const Four x = load<kWide>(u, column, hidden), y = load<kWide>(u + hidden, column, hidden);
        const Four d = load<kWide>(dh + row * hidden, column, hidden);
        Four of_u, of_v;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const SwigluGradient gradient = swiglu_gradient(x.x[i], y.x[i], d.x[i]);
            of_u.x[i] = gradient.du;
            of_v.x[i] = gradient.dv;
        }
        float* const du = d_gate_up + row * 2 * hidden;
        store<kWide>(du, column, hidden, of_u);
        store<kWide>(du + hidden, column, hidden, of_v);
    });
}

int64_t blocks_for(int64_t rows, int64_t width) { return parts(rows * parts(width, 4), kThreads); }

} // namespace

void RowKernels::add(float* a, const float* b, int64_t count) const {
    HW4_LAUNCH(add_floats, by_four(count, a, b), Blocks{stream_, blocks_for(1, count)}, a, b, count);
}

void RowKernels::adamw(float* p, const float* g, float* m, float* v, int64_t count, const Adam& step) const {
    HW4_LAUNCH(update, by_four(count, p, g, m, v), Blocks{stream_, blocks_for(1, count)}, p, g, m, v, count, step);
}

void RowKernels::rotate(float* qkv, const float* table, int64_t rows, int64_t context, int64_t heads,
                        int64_t head_width, bool back) const {
    const int64_t width = heads * head_width;
    HW4_LAUNCH(rotate_rows, by_four(width, qkv), Blocks{stream_, blocks_for(rows, 2 * width)}, qkv, table, rows,
               context, static_cast<int>(width), static_cast<int>(head_width), back);
}

void RowKernels::swiglu(const float* gate_up, float* h, int64_t rows, int64_t hidden) const {
    HW4_LAUNCH(swiglu_rows, by_four(hidden, gate_up, h), Blocks{stream_, blocks_for(rows, hidden)}, gate_up, h, rows,
               hidden);
}

void RowKernels::swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows,
                             int64_t hidden) const {
    HW4_LAUNCH(swiglu_back_rows, by_four(hidden, gate_up, dh, d_gate_up), Blocks{stream_, blocks_for(rows, hidden)},
               gate_up, dh, d_gate_up, rows, hidden);
}

} // namespace hw4::step
