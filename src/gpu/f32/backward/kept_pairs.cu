// kept_pairs: P and dS kept in memory, so that each pair is computed once. The top of the backward ladder.
//
// Idea      The rungs below compute a pair twice, for dQ and for dK and dV: seven products where five are needed. Here
//           P and dS of as many units as fit in memory are written out (pairs.cu), and the gradients are three plain
//           matrix products (sum_tiles.cuh). No block waits for another, and there are no atomic additions.
// Memory    8 bytes per pair. If there is not enough, units come in rounds, and a unit that is too large in slabs of
//           query rows (rounds.h).
// Order     The contract's segments and groups; with few blocks, groups are summed separately, and join.cu adds
//           them up.
#include <algorithm>

#include "src/gpu/f32/backward/gradient_args.h"
#include "src/gpu/f32/backward/round_args.h"
#include "src/gpu/f32/backward/rounds.h"
#include "src/gpu/f32/kernels.h"

namespace hw4::gpu {
namespace {

constexpr size_t kCounterBytes = 256;
static_assert(kPaddedRows == kSumRows && kPaddedRows * kPaddedKeys == kPairTile);

// Rounds reuse the memory that the first steps no longer need.
size_t bytes_before_rounds(const Problem& problem) { return facts_bytes(problem) + kCounterBytes; }

// The parts of the memory of a round, one after the other.
class RoundMemory {
public:
    explicit RoundMemory(void* from) : next_(static_cast<float*>(from)) {}

    float* take(int64_t floats) {
        float* const part = next_;
        next_ += floats;
        return part;
    }

private:
    float* next_;
};

void compute_round(const RoundArgs& args, const RunningTotals& totals, const Device& device, cudaStream_t stream) {
    launch_pairs(args, device, stream);
    launch_sums(args, stream);
    if (args.dq_parts != nullptr) join_sums(args, totals, stream);
}

} // namespace

Plan plan_kept_pairs(const Problem& problem, const Device& device) {
    constexpr int64_t kFewRows = 32; // with so few, most of a tile would be padding
    constexpr int64_t kMostRows = int64_t{1} << 30;
    constexpr size_t kMuchScratch = size_t{8} << 30; // for a slab: a million keys
    Plan plan;
    const int64_t rows = std::max(problem.queries, problem.keys);
    if (rows > kMostRows) {
        plan.why_not = "takes up to " + std::to_string(kMostRows) + " queries and keys of a head, this case has " +
                       std::to_string(rows);
        return plan;
    }
    const AskedGradients asked(problem);
    const Problem seeing = asked.of_rows(problem);
    const auto dim = static_cast<int>(problem.dim);
    plan.shared_bytes = std::max(pair_bytes(dim, device), sum_bytes(dim));
    const size_t first_steps = first_steps_bytes(problem, device);
    plan.scratch_bytes = std::max(first_steps, bytes_before_rounds(problem) + least_round_bytes(seeing));
    plan.most_scratch = std::max(first_steps, bytes_before_rounds(problem) + most_round_bytes(seeing));
    plan.pays = seeing.queries > kFewRows && asked.keys > kFewRows && plan.scratch_bytes <= kMuchScratch;
    return plan;
}

void launch_kept_pairs(const Launch& launch, cudaStream_t stream) {
    const Problem problem = AskedGradients(launch.problem).of_rows(launch.problem);
    const RowFacts* const facts = take_first_steps(launch, stream);
    const size_t first = bytes_before_rounds(launch.problem);
    const size_t bytes = std::max(launch.scratch_bytes, first + least_round_bytes(problem)) - first;
    const Rounds rounds = rounds_for(problem, launch.device, bytes);
    const RoundSizes sizes(problem);
    RoundMemory memory(static_cast<char*>(launch.scratch) + first);

    RoundArgs args{};
    args.all = gradient_args(launch, facts);
    args.drawn = reinterpret_cast<unsigned*>(static_cast<char*>(launch.scratch) + first - kCounterBytes);
    args.key_tiles = static_cast<uint32_t>(sizes.key_tiles);
    args.pair_unit = static_cast<size_t>(sizes.pairs(rounds.slab_rows));
    args.p = memory.take(rounds.units_at_once * sizes.pairs(rounds.slab_rows));
    args.ds_from_p = static_cast<size_t>(memory.take(rounds.units_at_once * sizes.pairs(rounds.slab_rows)) - args.p);
    args.part_row = static_cast<size_t>(sizes.part_row);
    RunningTotals totals;
    if (rounds.apart) {
        args.dq_parts = memory.take(rounds.units_at_once * sizes.query_parts(rounds.slab_rows));
        args.dk_parts = memory.take(rounds.units_at_once * sizes.key_parts(rounds.slab_rows));
        args.dv_parts = memory.take(rounds.units_at_once * sizes.key_parts(rounds.slab_rows));
    }
    if (rounds.slabs > 1) {
        totals.dk = memory.take(sizes.key_totals());
        totals.dv = memory.take(sizes.key_totals());
    }
    for (int64_t unit = 0; unit < problem.units(); unit += rounds.units_at_once) {
        args.first_unit = static_cast<uint32_t>(unit);
        args.units = static_cast<uint32_t>(std::min(rounds.units_at_once, problem.units() - unit));
        for (int64_t row = 0; row < problem.queries; row += rounds.slab_rows) {
            args.first_row = static_cast<int>(row);
            args.rows = static_cast<int>(std::min(rounds.slab_rows, problem.queries - row));
            totals.unit_begins = row == 0;
            totals.unit_ends = row + rounds.slab_rows >= problem.queries;
            compute_round(args, totals, launch.device, stream);
        }
    }
}

} // namespace hw4::gpu
