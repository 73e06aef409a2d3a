// What the forward kernels are launched with, as they take it.
#pragma once

#include "src/contracts/f32/forward.h"
#include "src/gpu/common/divisor.h"
#include "src/gpu/launch.h"

namespace hw4::gpu {

// A launch of some query rows is to the kernels one of as many: q and out begin with the first of them.
struct ForwardArgs {
    Matrix<const float> q;
    Matrix<const float> k;
    Matrix<const float> v;
    Matrix<float> out;
    int64_t queries; // of a unit
    int64_t keys;
    uint32_t units;             // heads of all batches
    Divisor heads = Divisor(1); // of a batch
    Divisor group = Divisor(1); // neighbours among them that share a head of K and V
    int dim;
    Scale scale;
    void* scratch;

    HW4_INLINE uint32_t kv_units() const { return group.quotient(units); }
    HW4_INLINE uint32_t kv_unit(uint32_t unit) const { return group.quotient(unit); }
};

inline ForwardArgs forward_args(const Launch& launch) {
    const Problem& problem = launch.problem;
    const auto from_first_query = [&](auto matrix) {
        matrix.at += static_cast<size_t>(launch.first_query) * matrix.row;
        return matrix;
    };
    ForwardArgs args{};
    args.q = from_first_query(launch.in[0]);
    args.k = launch.in[1];
    args.v = launch.in[2];
    args.out = from_first_query(launch.out[0]);
    args.queries = launch.queries();
    args.keys = problem.keys;
    args.units = static_cast<uint32_t>(problem.units());
    args.heads = Divisor(static_cast<uint32_t>(problem.heads));
    args.group = Divisor(static_cast<uint32_t>(problem.heads / problem.kv_heads));
    args.dim = static_cast<int>(problem.dim);
    args.scale = scale_for(problem.dim);
    args.scratch = launch.scratch;
    return args;
}

// The same of a problem whose matrices are not looked at: what kernels plan by.
inline ForwardArgs forward_args(const Problem& problem) {
    Launch launch;
    launch.problem = problem;
    return forward_args(launch);
}

// A unit's place.
struct HeadPlace {
    uint32_t batch;
    uint32_t head;
    uint32_t kv_head;
};

HW4_INLINE HeadPlace head_place(const ForwardArgs& args, uint32_t unit) {
    const uint32_t batch = args.heads.quotient(unit);
    const uint32_t head = unit - batch * args.heads.number();
    return {batch, head, args.group.quotient(head)};
}

} // namespace hw4::gpu
