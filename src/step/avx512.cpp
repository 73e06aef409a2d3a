// This file alone is built with -mavx512f -mfma.
#include "src/step/vector_unit.h"

namespace hw4::step {

const Kernels kAvx512Kernels =
    kernels_of_unit("avx512", [] { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma"); });

} // namespace hw4::step
