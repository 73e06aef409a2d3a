// The CPU engine: all cores, with the widest vectors of the processor.
#pragma once

#include <memory>
#include <vector>

#include "src/cpu/kernels.h"
#include "src/run/engine.h"

namespace hw4::cpu {

std::vector<KernelInfo> kernel_list();

// Throws Error (usage, bad_data, out_of_memory).
std::unique_ptr<Engine> make_engine(const EngineRequest& request);

} // namespace hw4::cpu
