#include "src/bench/gpu/subject_parts.h"

#include <vector>

#include "src/base/error.h"

namespace hw4::bench::gpu_side {

CardMemory memory_of_card() {
    CardMemory memory;
    HW4_CUDA(cudaMemGetInfo(&memory.free, &memory.total));
    return memory;
}

Memory::Memory(MemoryCount& count, size_t bytes, const char* purpose)
    : counted_(count, bytes, purpose, [&] {
          try {
              memory_ = gpu::make_scratch(bytes);
          } catch (const Error& error) {
              if (error.code() != ExitCode::out_of_memory) throw;
              static_cast<void>(cudaGetLastError()); // it is told here: the next look must not find it again
              count.refuse(bytes, memory_of_card().free, purpose);
          }
      }) {}

const gpu::Kernel& kernel_for(const std::string& name, const Problem& problem, const Contract& contract,
                              const gpu::Device& device) {
    const std::string lacking = why_not(contract, problem);
    if (!lacking.empty()) throw Unsupported(lacking);
    const gpu::Kernel* const found =
        name.empty() ? gpu::choose_kernel(problem, device, contract) : gpu::find_kernel(name);
    const std::vector<gpu::Kernel> all = gpu::kernels_of(contract, *problem.operation);
    if (found == nullptr)
        throw Unsupported(all.empty() ? "no GPU kernel of this build computes " + std::string(contract.name) + " " +
                                            problem.operation->name
                                      : gpu::plan_of(all.front(), problem, device).why_not);
    const std::string reason = gpu::plan_of(*found, problem, device).why_not;
    if (!reason.empty()) throw Unsupported(reason);
    return *found;
}

} // namespace hw4::bench::gpu_side
