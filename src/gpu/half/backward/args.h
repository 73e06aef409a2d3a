// What the backward kernels of half precision are launched with.
//
// P = 2^(c * (score - origin) - L); 0 where the key is not seen. origin, M and l are forward's (row_statistics.h), and
// L = M + log2(l).
//
// dS = P * (dO v^T - D), D = dO . O with O as it was written.
//
// dV = sum over queries of P dO, dK = g * sum of dS q, dQ = g * sum over keys of dS k, with g = 1 / sqrt(d). P and dS
// are rounded to the type before they are multiplied.
//
// Sums are float32. dK, dV: heads of the group ascending, in each tiles of queries ascending. dQ: blocks of keys
// descending, one after the other added to the sum in memory, or to that in registers. Which tiles there are depends on
// d alone, so every row's bytes depend on its head's operands and the mask, on nothing else.
#pragma once

#include "src/gpu/half/forward/args.h"

namespace hw4::gpu::half_backward {

using half_forward::NumberType;
using half_forward::Operand;

struct Args {
    half_forward::Args forward; // with O and its rows' statistics, which are there
    Operand dout;
    Operand dq;
    Operand dk;
    Operand dv;
    void* scratch = nullptr; // Scratch::end bytes, for one launch at a time

    int64_t kv_units() const { return forward.batches * forward.kv_heads; }
    // Of dQ and dK.
    float scale() const {
        const int64_t of = forward.root_of > 0 ? forward.root_of : forward.dim;
        return static_cast<float>(1.0 / std::sqrt(static_cast<double>(of)));
    }
};

// Rows of a head in scratch memory: whole tiles, whichever kernel's.
constexpr int64_t kPaddedQueries = 128;

inline int64_t padded_queries(int64_t queries) {
    return (queries + kPaddedQueries - 1) / kPaddedQueries * kPaddedQueries;
}

// Numbers at the beginning of scratch memory, 0 before a launch.
enum Counter { kKeyJobs, kQueryJobs, kFarRows, kCounters = 4 };

// Where things are in scratch memory, in bytes.
struct Scratch {
    static constexpr int64_t kAlignment = 256;
    static constexpr int64_t kTurnsOfRows = 64; // queries that have two turns: one for each group of a block

    int64_t counters = 0; // Counters, then the turns
    int64_t counter_count;
    int64_t levels;   // L, [unit][padded queries]
    int64_t origins;  // likewise
    int64_t products; // D, likewise
    int64_t dq;       // float32 sums of dQ; of d up to 128
    int64_t end;

    Scratch(int64_t units, int64_t queries, int64_t dim) {
        const auto after = [](int64_t offset, int64_t bytes) {
            return (offset + bytes + kAlignment - 1) / kAlignment * kAlignment;
        };
        const int64_t rows = units * padded_queries(queries);
        counter_count = kCounters + 2 * rows / kTurnsOfRows;
        levels = after(counters, counter_count * 4);
        origins = after(levels, rows * 4);
        products = after(origins, rows * 4);
        dq = after(products, rows * 4);
        end = after(dq, rows * 4 * (dim <= 64 ? 64 : dim <= 128 ? 128 : 0));
    }
    explicit Scratch(const Args& args) : Scratch(args.forward.units(), args.forward.queries, args.forward.dim) {}
};

} // namespace hw4::gpu::half_backward
