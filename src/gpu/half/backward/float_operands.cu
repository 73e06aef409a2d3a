#include "src/gpu/half/backward/float_operands.h"

#include "src/gpu/half/forward/float_operands.h"

namespace hw4::gpu::half_backward {
namespace {

using half_forward::packed;
using half_forward::padded_columns;
using half_forward::RowsOfHeads;
using half_forward::widen;

// Where things are in scratch memory.
struct Parts {
    unsigned* counter;
    void* q;
    void* k;
    void* v;
    void* dout;
    void* out;
    void* dq;
    void* dk;
    void* dv;
    RowStatistics* statistics;
    void* of_kernel;
    size_t bytes = 0;

    Parts(void* base, const Problem& problem, bool sums) {
        const auto take = [&](int64_t count) {
            constexpr size_t kAlignment = Scratch::kAlignment;
            void* const part = static_cast<char*>(base) + bytes;
            bytes += (static_cast<size_t>(count) + kAlignment - 1) / kAlignment * kAlignment;
            return part;
        };
        const int64_t columns = padded_columns(problem.dim);
        const int64_t of_queries = 2 * problem.units() * problem.queries * columns;
        const int64_t of_keys = 2 * problem.batches * problem.kv_heads * problem.keys * columns;
        counter = static_cast<unsigned*>(take(sizeof(unsigned)));
        q = take(of_queries);
        k = take(of_keys);
        v = take(of_keys);
        dout = take(of_queries);
        out = take(of_queries);
        dq = take(of_queries);
        dk = take(of_keys);
        dv = take(of_keys);
        statistics = static_cast<RowStatistics*>(
            take(problem.units() * problem.queries * static_cast<int64_t>(sizeof(RowStatistics))));
        const Scratch scratch(problem.units(), problem.queries, columns);
        of_kernel = take(sums ? scratch.end : scratch.dq);
    }
};

} // namespace

size_t rounded_bytes(const Problem& problem, bool sums) { return Parts(nullptr, problem, sums).bytes; }

Args round_operands(const Launch& launch, NumberType type, cudaStream_t stream) {
    const Problem& problem = launch.problem;
    const ForwardArgs from = forward_args(launch);
    const Parts parts(launch.scratch, problem, true);
    const int64_t columns = padded_columns(problem.dim);
    const int64_t kv_units = problem.batches * problem.kv_heads;
    const auto of_queries = [&](void* at) { return packed(at, problem.queries, problem.heads, columns); };
    const auto of_keys = [&](void* at) { return packed(at, problem.keys, problem.kv_heads, columns); };
    const bool has_out = launch.forward_out.at != nullptr;
    Args args;
    half_forward::Args& forward = args.forward;
    forward.type = type;
    forward.batches = problem.batches;
    forward.heads = problem.heads;
    forward.kv_heads = problem.kv_heads;
    forward.queries = problem.queries;
    forward.keys = problem.keys;
    forward.dim = columns;
    forward.root_of = problem.dim;
    forward.sight = from.sight;
    forward.q = of_queries(parts.q);
    forward.k = of_keys(parts.k);
    forward.v = of_keys(parts.v);
    forward.out = of_queries(parts.out);
    forward.statistics = has_out ? launch.statistics : parts.statistics;
    forward.statistics_unit = problem.queries;
    forward.counter = parts.counter;
    args.dout = of_queries(parts.dout);
    args.dq = of_queries(parts.dq);
    args.dk = of_keys(parts.dk);
    args.dv = of_keys(parts.dv);
    args.scratch = parts.of_kernel;

    RowsOfHeads<const float> operands[] = {
        {from.q, parts.q, problem.queries, problem.units()},
        {from.k, parts.k, problem.keys, kv_units},
        {from.v, parts.v, problem.keys, kv_units},
        {heads_of(launch.in[3], problem.heads), parts.dout, problem.queries, problem.units()},
        {heads_of(launch.forward_out, problem.heads), parts.out, problem.queries, problem.units()}};
    half_forward::round_all(operands, has_out ? 5 : 4, from.dim, parts.counter, type, stream);
    return args;
}

void widen_gradients(const Launch& launch, const Args& args, cudaStream_t stream) {
    const Problem& problem = launch.problem;
    const auto dim = static_cast<int>(problem.dim);
    const int64_t kv_units = problem.batches * problem.kv_heads;
    const NumberType type = args.forward.type;
    widen({heads_of(launch.out[0], problem.heads), args.dq.at, problem.queries, problem.units()}, dim, type, stream);
    widen({heads_of(launch.out[1], problem.kv_heads), args.dk.at, problem.keys, kv_units}, dim, type, stream);
    widen({heads_of(launch.out[2], problem.kv_heads), args.dv.at, problem.keys, kv_units}, dim, type, stream);
}

} // namespace hw4::gpu::half_backward
