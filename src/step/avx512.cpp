// This file alone is built with -mavx512f -mfma.
#include "src/step/tile.h"

namespace hw4::step {

const Kernels& avx512_kernels() {
    static const Kernels kernels =
        kernels_of_unit("avx512", [] { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma"); });
    return kernels;
}

} // namespace hw4::step
