#include "src/commands/version_line.h"

#include "src/base/version.h"
#include "src/contracts/contract.h"
#include "src/gpu/engine.h"

namespace hw4 {

std::string version_line() {
    std::string revisions;
    for (const Contract* contract : contracts())
        for (const Computed& computed : contract->computes)
            revisions += " " + contract->revision_of(*computed.operation);
    return "hw4 " + std::string(kVersion) + ", contracts" + revisions + ", " + gpu::build_description() + "\n";
}

} // namespace hw4
