// This file alone is built with -mavx2 -mfma.
#include "src/step/vector_unit.h"

namespace hw4::step {

const Kernels kAvx2Kernels =
    kernels_of_unit("avx2", [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); });

} // namespace hw4::step
