#include "src/gpu/kernels.h"

#include <iterator>

#include "src/gpu/f32/kernels.h"
#include "src/gpu/fixed/kernels.h"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu {

const std::vector<Kernel>& kernels() {
    static const std::vector<Kernel> table = [] {
        std::vector<Kernel> all = f32_kernels();
        for (std::vector<Kernel> more : {fixed_kernels(), half_kernels()})
            all.insert(all.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
        return all;
    }();
    return table;
}

} // namespace hw4::gpu
