// HW4_INLINE before a function that host and device code share. Always inlined, so that a translation unit built for a
// wider vector unit can never lend its copy of the function to one that must run without it.
#pragma once

#if defined(__CUDACC__)
#define HW4_INLINE __host__ __device__ __forceinline__
#else
#define HW4_INLINE inline __attribute__((always_inline))
#endif
