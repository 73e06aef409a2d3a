// The arguments of the forward kernels.
#pragma once

#include "src/contracts/f32/forward.h"
#include "src/contracts/row_statistics.h"
#include "src/gpu/common/divisor.h"
#include "src/gpu/launch.h"

namespace hw4::gpu {

// The heads of a tensor, counted through all batches.
template <class T>
struct Heads {
    T* at = nullptr;
    size_t row = 0;  // distance from one row to the next, in elements
    size_t head = 0; // the same for heads
    size_t more = 0; // added to `head` from a batch's last head to the next batch; 0 if contiguous or with one head
    Divisor in_batch = Divisor(1);

    HW4_INLINE T* of(uint32_t index) const {
        T* const start = at + index * head;
        return more == 0 ? start : start + in_batch.quotient(index) * more;
    }

    // The same memory as elements of another type.
    template <class Other>
    HW4_INLINE Heads<Other> as() const {
        return {reinterpret_cast<Other*>(at), row, head, more, in_batch};
    }
};

template <class T>
Heads<T> heads_of(const Tensor& tensor, int64_t in_batch) {
    const Matrix<T> matrix = tensor.as<T>();
    if (in_batch == 1) return {matrix.at, matrix.row, matrix.batch, 0, Divisor(1)};
    return {matrix.at, matrix.row, matrix.head, matrix.batch - static_cast<size_t>(in_batch) * matrix.head,
            Divisor(static_cast<uint32_t>(in_batch))};
}

// A launch of some query rows is given to the kernels as a launch with that many queries: q, out, sight and statistics
// begin with the first of them. If the element is not float32, all four tensors hold 16-bit numbers; only kernels that
// take them, as their row in the table says, get such a launch.
struct ForwardArgs {
    Heads<const float> q; // by unit
    Heads<const float> k; // by head of K and V
    Heads<const float> v;
    Heads<float> out;
    int64_t queries; // of a unit
    int64_t keys;
    VisibleKeys sight;
    RowStatistics* statistics;  // [unit][query]; null: not wanted
    int64_t statistics_unit;    // from one unit to the next
    uint32_t units;             // heads of all batches
    Element element;            // of q, k, v and out
    Divisor group = Divisor(1); // adjacent units that share a head of K and V
    int dim;
    Scale scale;
    void* scratch;

    HW4_INLINE bool is_narrow() const { return element != Element::float32; }

    // Writes a row's statistics if the launch wants them.
    HW4_INLINE void store_statistics(uint32_t unit, int64_t query, const RowStatistics& row) const {
        if (statistics != nullptr) statistics[unit * statistics_unit + query] = row.l > 0 ? row : RowStatistics{};
    }

    // The fraction of all pairs of a query and a key in which the query sees the key.
    double seen_share() const {
        if (sight.more == 0) return 1;
        const auto pairs = [this](const VisibleKeys& keys_seen) {
            const auto first = static_cast<double>(keys_seen.first < 1 ? 1 : keys_seen.first);
            const auto last = static_cast<double>(keys_seen.of(queries - 1));
            const double seeing = last < first ? 0 : last - first + 1;
            return seeing * (first + last) / 2;
        };
        const double beyond = pairs({sight.first - keys, sight.more}); // pairs behind the block's last key
        const double before = pairs({sight.first - sight.window, sight.more});
        return (pairs(sight) - beyond - before) / (static_cast<double>(queries) * static_cast<double>(keys));
    }

    HW4_INLINE uint32_t kv_units() const { return group.quotient(units); }
    HW4_INLINE uint32_t kv_unit(uint32_t unit) const { return group.quotient(unit); }
};

inline ForwardArgs forward_args(const Launch& launch) {
    const Problem& problem = launch.problem;
    ForwardArgs args{};
    args.q = heads_of<const float>(launch.in[0].from_row(launch.first_query), problem.heads);
    args.k = heads_of<const float>(launch.in[1], problem.kv_heads);
    args.v = heads_of<const float>(launch.in[2], problem.kv_heads);
    args.out = heads_of<float>(launch.out[0].from_row(launch.first_query), problem.heads);
    args.element = problem.element;
    args.queries = launch.queries();
    args.keys = problem.keys;
    args.sight = sight_of(problem.mask, problem.queries, problem.keys, problem.window);
    args.sight.first += launch.first_query * args.sight.more;
    args.statistics = launch.statistics == nullptr ? nullptr : launch.statistics + launch.first_query;
    args.statistics_unit = problem.queries;
    args.units = static_cast<uint32_t>(problem.units());
    args.group = Divisor(static_cast<uint32_t>(problem.heads / problem.kv_heads));
    args.dim = static_cast<int>(problem.dim);
    args.scale = scale_for(problem.key_dim(), problem.scale);
    args.scratch = launch.scratch;
    return args;
}

// The same without tensors: kernels plan with it.
inline ForwardArgs forward_args(const Problem& problem) {
    Launch launch;
    launch.problem = problem;
    return forward_args(launch);
}

} // namespace hw4::gpu
