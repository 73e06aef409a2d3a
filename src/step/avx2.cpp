// This file alone is built with -mavx2 -mfma.
#include "src/step/tile.h"

namespace hw4::step {

const Kernels& avx2_kernels() {
    static const Kernels kernels =
        kernels_of_unit("avx2", [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); });
    return kernels;
}

} // namespace hw4::step
