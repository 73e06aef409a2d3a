#include "src/cpu/kernel.h"

namespace hw4::cpu {

#if defined(__aarch64__)
const Kernel& neon_kernel();
const Kernel& fixed_smmla_kernel();
const Kernel& fixed_sdot_kernel();
#elif defined(__x86_64__)
const Kernel& avx512_kernel();
const Kernel& avx2_kernel();
const Kernel& fixed_avx512_kernel();
const Kernel& fixed_avx_vnni_kernel();
const Kernel& fixed_avx2_kernel();
#endif
const Kernel& generic_kernel();
const Kernel& fixed_generic_kernel();

const std::vector<const Kernel*>& kernels() {
    static const std::vector<const Kernel*> list = {
#if defined(__aarch64__)
        &neon_kernel(),
#elif defined(__x86_64__)
        &avx512_kernel(),
        &avx2_kernel(),
#endif
        &generic_kernel(),
#if defined(__aarch64__)
        &fixed_smmla_kernel(),
        &fixed_sdot_kernel(),
#elif defined(__x86_64__)
        &fixed_avx512_kernel(),
        &fixed_avx_vnni_kernel(),
        &fixed_avx2_kernel(),
#endif
        &fixed_generic_kernel(),
    };
    return list;
}

} // namespace hw4::cpu
