// The pre-pass: turns K and V of every tile of keys into digits, in the order in which the next kernel copies them.
#pragma once

#include "src/gpu/common/forward_args.h"
#include "src/gpu/fixed/forward/layout.h"

namespace hw4::gpu::fixed_point {

// The facts about all tiles of a head that the next kernel needs: the fewer, the fewer maxima each tile adds to.
enum class Facts {
    needed, // the longest key if the contract needs lengths, and the smallest exponent of V
    all,    // also the exponents of K: under fixed16 those of Q depend on them
};

// Which multiprocessors prepare which heads.
struct Prepass {
    uint32_t heads_before;   // the first heads, prepared by the whole GPU
    int64_t multiprocessors; // these prepare the others beside the next kernel; 0: none. Only for rows of 64 columns
};

inline Prepass all_before(const ForwardArgs& args) { return {args.kv_units(), 0}; }

// If heads are prepared beside the next kernel: for each head, the number of its halves of tiles, of K or of V, that
// are ready. In scratch memory, from Prepared::end on, and 0 at first.
using ReadyHalves = uint32_t;
constexpr int64_t ready_bytes(int64_t heads) { return rounded_up(heads * int64_t{sizeof(ReadyHalves)}); }

// Writes to the beginning of the launch's scratch memory, prepared_bytes<Rules>() of it, and sets the next
// cleared_bytes to 0. A kernel that may start before this one has ended (programmatic dependent launch) finds the
// zeros, and must wait for the rest: for all of it or, if heads are prepared beside it, for each head until its tiles
// are ready, and for all of it at its end.
template <class Rules>
Prepared launch_prepare(const ForwardArgs& args, Facts facts, size_t cleared_bytes, const Prepass& prepass,
                        cudaStream_t stream);

extern template Prepared launch_prepare<ThreeDigits>(const ForwardArgs&, Facts, size_t, const Prepass&, cudaStream_t);
extern template Prepared launch_prepare<TwoDigits>(const ForwardArgs&, Facts, size_t, const Prepass&, cudaStream_t);

} // namespace hw4::gpu::fixed_point
