// The references and the CPU's kernels as subjects of tests.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "src/cpu/kernels.h"
#include "tests/support/compute_batches.h"
#include "tests/support/subject.h"

namespace hw4 {

// Kernels of every contract, or of `under` alone.
inline std::vector<cpu::Kernel> cpu_kernels_of(const Operation& operation, const Contract* under = nullptr) {
    std::vector<cpu::Kernel> list;
    for (const cpu::Kernel& kernel : cpu::kernels())
        if (kernel.does == &operation && (under == nullptr || kernel.under == under)) list.push_back(kernel);
    return list;
}

inline Subject reference_subject(const Contract& contract) {
    const std::string name = &contract == &kF32 ? "reference" : std::string(contract.name) + "_reference";
    return {name, &contract, [](const Problem&) { return std::string(); },
            [&contract](const Problem& problem, const std::vector<float>& qkv) {
                std::vector<float> out(static_cast<size_t>(problem.batches) * problem.batch_output_floats(), NAN);
                compute_by_reference(contract, problem, qkv.data(), out.data());
                return out;
            }};
}

inline Subject cpu_subject(const cpu::Kernel& kernel) {
    const auto why_not = [&kernel](const Problem& problem) {
        return kernel.needs.processor() ? cpu::plan_of(kernel, problem, 1).why_not
                                        : "this processor has no " + std::string(kernel.name);
    };
    const auto attend = [&kernel](const Problem& problem, const std::vector<float>& qkv) {
        std::vector<float> out(static_cast<size_t>(problem.batches) * problem.batch_output_floats(), NAN);
        cpu::compute_batches(kernel, problem, qkv.data(), out.data(), 2);
        return out;
    };
    return {kernel.name, kernel.under, why_not, attend};
}

inline std::vector<Subject> cpu_subjects(const std::vector<const Contract*>& contracts) {
    std::vector<Subject> list;
    for (const Contract* contract : contracts) {
        list.push_back(reference_subject(*contract));
        for (const cpu::Kernel& kernel : cpu::kernels())
            if (kernel.does == &kForward && kernel.under == contract) list.push_back(cpu_subject(kernel));
    }
    return list;
}

} // namespace hw4
