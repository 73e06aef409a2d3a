// The CPU's forward kernels whose outputs have the reference's bytes under contracts that are compared by a bound.
#pragma once

#include <string>
#include <vector>

#include "src/cpu/kernels.h"

namespace hw4 {

// Those that this processor has: f32's arithmetic on rounded numbers.
inline std::vector<cpu::Kernel> kernels_like_reference(const Contract& contract) {
    std::vector<cpu::Kernel> list;
    for (const cpu::Kernel& kernel : cpu::kernels())
        if (kernel.under == &contract && kernel.does == &kForward && !kernel.needs.elements.has(contract.element) &&
            kernel.needs.processor())
            list.push_back(kernel);
    return list;
}

// The name to ask for; none where all kernels have those bytes: of contracts that promise them, and of backward.
inline std::string kernel_like_reference(const Contract& contract, const Operation& operation = kForward) {
    const bool all = contract.compared == Compared::bytes || &operation != &kForward;
    return all ? "" : kernels_like_reference(contract).back().name;
}

} // namespace hw4
