// Steps that a run of one case and one of many have in common.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/commands/options.h"
#include "src/contracts/contract.h"
#include "src/io/case_file.h"
#include "src/io/output_file.h"

namespace hw4 {

// The ranges the course states, as a remark and no more: its own cases t12 and t22 break the one for B*N*d.
void remark_unusual(const std::string& input, const Problem& problem);

// Throws Error (bad_data).
void refuse_what_the_contract_lacks(const CaseReader& input, const Contract& contract);

// The only case of a run: the file or the arrays that the options name. Throws Error.
CaseReader open_case(const Options& options);

// A file beside the others. Opened before the work, so that a bad name shows at once. Null where it has no name.
std::unique_ptr<OutputFile> open_beside(const std::vector<std::string>& others, const std::string& path,
                                        const CaseReader& input, const std::vector<FileIdentity>& kept,
                                        InterruptGuard& interrupts, const OutputForm& form = {});

// Writes a file beside the output that tells about the run.
void finish_report(OutputFile& file, const std::string& text, bool sync);

} // namespace hw4
