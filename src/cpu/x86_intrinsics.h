// The intrinsics of x86. Every file that uses them includes this one instead of the compiler's header, in which the
// operands that AVX-512 instructions do not use are uninitialised: g++ 12 warns of them.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
