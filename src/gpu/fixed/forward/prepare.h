// The pre-pass: K and V of every tile of keys to digits, in the order in which the next kernel copies them.
#pragma once

#include "src/gpu/common/forward_args.h"
#include "src/gpu/fixed/forward/layout.h"

namespace hw4::gpu::fixed_point {

// What the next kernel wants to know of all tiles of a head: the less, the fewer maxima each tile adds to.
enum class Facts {
    needed, // the longest key where the contract needs lengths, and the smallest exponent of V
    all,    // the exponents of K too: under fixed16 those of Q follow from them
};

// To the beginning of the launch's scratch memory, prepared_bytes<Rules>() of it; so many bytes more are set to 0. A
// kernel that may start before this one has ended (programmatic dependent launch) finds those, and must wait for the
// rest.
template <class Rules>
Prepared launch_prepare(const ForwardArgs& args, Facts facts, size_t cleared_bytes, cudaStream_t stream);

extern template Prepared launch_prepare<ThreeDigits>(const ForwardArgs&, Facts, size_t, cudaStream_t);
extern template Prepared launch_prepare<TwoDigits>(const ForwardArgs&, Facts, size_t, cudaStream_t);

} // namespace hw4::gpu::fixed_point
