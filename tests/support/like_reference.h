// The CPU's forward kernels that give the reference's bytes under contracts compared by a bound.
#pragma once

#include <string>
#include <vector>

#include "src/cpu/kernels.h"

namespace hw4 {

// Such kernels that this processor can run: they compute f32's arithmetic on rounded numbers.
inline std::vector<cpu::Kernel> kernels_like_reference(const Contract& contract) {
    std::vector<cpu::Kernel> list;
    for (const cpu::Kernel& kernel : cpu::kernels())
        if (kernel.under == &contract && kernel.does == &kForward && !kernel.needs.elements.has(contract.element) &&
            kernel.needs.processor())
            list.push_back(kernel);
    return list;
}

// The name of such a kernel; empty where all kernels have the reference's bytes: contracts by bytes, and backward.
inline std::string kernel_like_reference(const Contract& contract, const Operation& operation = kForward) {
    const bool all = contract.compared == Compared::bytes || &operation != &kForward;
    return all ? "" : kernels_like_reference(contract).back().name;
}

} // namespace hw4
