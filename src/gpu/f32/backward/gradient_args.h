// The arguments of the backward kernels.
#pragma once

#include "src/contracts/f32/asked_gradients.h"
#include "src/gpu/common/forward_args.h"
#include "src/gpu/launch.h"

namespace hw4::gpu {

// What the pairs of a query row need besides the tensors. inv is 0 for a row that sees no key.
struct alignas(16) RowFacts {
    float M; // the reference, together with origin
    float origin;
    float inv;
    float D;
};

// A part of backward: its keys and the query rows that see them, as if there were no other keys or rows.
struct GradientArgs {
    ForwardArgs forward;     // the arguments of forward; its out is dQ, or none
    Heads<const float> dout; // by unit
    Heads<float> dk;         // by head of K and V; none if not wanted
    Heads<float> dv;
    const RowFacts* rows; // [unit][query]
    float scale;          // of dQ and dK

    HW4_INLINE bool gives_dq() const { return forward.out.at != nullptr; }
    HW4_INLINE bool gives_dk_dv() const { return dk.at != nullptr; }

    HW4_INLINE const RowFacts& row(uint32_t unit, int64_t query) const { return rows[unit * forward.queries + query]; }

    // The first query that sees the key; the number of queries if none does.
    HW4_INLINE int64_t first_seeing(int64_t key) const {
        if (forward.sight.more == 0) return 0;
        const int64_t query = key + 1 - forward.sight.first;
        return query < 0 ? 0 : query < forward.queries ? query : forward.queries;
    }
};

inline GradientArgs gradient_args(const Launch& launch, const RowFacts* rows) {
    const Problem& problem = launch.problem;
    const AskedGradients asked(problem);
    Launch seeing = launch;
    seeing.first_query = asked.unseeing_rows;
    GradientArgs args{};
    args.forward = forward_args(seeing);
    ForwardArgs& forward = args.forward;
    if (!asked.gives_dq) forward.out = {};
    for (Heads<const float>* matrix : {&forward.k, &forward.v})
        matrix->at += static_cast<size_t>(asked.first_key) * matrix->row;
    forward.keys = asked.keys;
    // Under a mask the last rows of a block see more keys than the block has: keys behind the block.
    forward.sight.first = problem.mask == Mask::none ? asked.keys : forward.sight.first - asked.first_key;
    args.dout = heads_of<const float>(launch.in[3].from_row(asked.unseeing_rows), problem.heads);
    if (asked.gives_dk_dv) {
        const Tensor* const out = launch.out + (asked.gives_dq ? 1 : 0);
        args.dk = heads_of<float>(out[0], problem.kv_heads);
        args.dv = heads_of<float>(out[1], problem.kv_heads);
    }
    args.rows = rows;
    args.scale = gradient_scale_for(problem.key_dim(), problem.scale);
    return args;
}

// P and dS of a pair in which the query sees the key, from the two products.
HW4_INLINE void form_pair(float score, float dP, const Reference& reference, const RowFacts& row, Scale scale, float& P,
                          float& dS) {
    P = probability(reference.weight(score, scale), row.inv);
    dS = score_gradient(P, dP, row.D);
}

HW4_INLINE Reference reference_of(const RowFacts& row, Scale scale) {
    return reference_of(RowStatistics{row.M, row.origin, 0.0f}, scale);
}

// ---- First steps of every backward kernel: O and the statistics of its rows, computed by forward unless the launch
// has them, and from them the facts that the pairs of each row need.

// Bytes that these steps take at the beginning of the launch's scratch memory.
size_t first_steps_bytes(const Problem& problem, const Device& device);

// Bytes of it that stay in use: the facts. The rest is free once these steps are done.
size_t facts_bytes(const Problem& problem);

// If O is not given, it is in dQ's place until this is done or, if dQ is not wanted, in scratch memory. The facts are
// in the launch's scratch memory, [unit][query], for the queries that gradients are wanted for (gradient_args()).
const RowFacts* take_first_steps(const Launch& launch, cudaStream_t stream);

} // namespace hw4::gpu
