// HW4_INLINE marks a function that host and device code share. It is always inlined, so that the linker can never use a
// copy from a translation unit built for a wider vector unit in one that must run without it.
#pragma once

#if defined(__CUDACC__)
#define HW4_INLINE __host__ __device__ __forceinline__
#else
#define HW4_INLINE inline __attribute__((always_inline))
#endif
