// HW4_FMA_CLONES before a function: on x86-64 it is compiled twice, with and without FMA instructions, and the loader
// picks one for the processor. Without FMA fmaf() is a library call, equal to the last bit but many times slower.
// Compilers and platforms without the attribute get the plain function.
#pragma once

#include <cmath> // defines __GLIBC__; the attribute needs glibc's loader

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(__FMA__) &&      \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HW4_FMA_CLONES __attribute__((target_clones("fma", "default")))
#else
#define HW4_FMA_CLONES
#endif
