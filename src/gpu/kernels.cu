#include "src/gpu/kernels.h"

#include "src/gpu/f32/kernels.h"
#include "src/gpu/fixed/kernels.h"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu {

const std::vector<Kernel>& kernels() {
    static const std::vector<Kernel> table = [] {
        std::vector<Kernel> all = f32_kernels();
        for (const std::vector<Kernel>& more : {fixed_kernels(), half_kernels()})
            all.insert(all.end(), more.begin(), more.end());
        return all;
    }();
    return table;
}

} // namespace hw4::gpu
