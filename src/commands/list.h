// hw4 --list-kernels: what there is, for people and, as JSON, for the judge, the scripts and the tests.
#pragma once

#include <string>
#include <vector>

#include "src/contracts/contract.h"
#include "src/run/engine.h"

namespace hw4 {

// All that a program has, so that a test can list more.
struct Inventory {
    List<const Operation*> operations;
    Contracts contracts;
    std::vector<KernelInfo> gpu; // in ladder order
    std::vector<KernelInfo> cpu;
};

Inventory inventory();

std::string list_text(const Inventory& inventory);
std::string list_json(const Inventory& inventory);

} // namespace hw4
