// Steps that a run of one case and one of many have in common.
#pragma once

#include <memory>
#include <string>

#include "src/commands/options.h"
#include "src/contracts/contract.h"
#include "src/io/case_file.h"
#include "src/io/output_file.h"
#include "src/io/run_files.h"

namespace hw4 {

// A note about a shape that no case of the course can have: those are computed too.
void remark_unusual(const std::string& input, const Problem& problem);

// Throws Error (bad_data).
void refuse_what_the_contract_lacks(const CaseReader& input, const Contract& contract);

// The only case of a run: the file or the arrays that the options name. Throws Error.
CaseReader open_case(const Options& options);

// Another output of the run, opened before the work, so that a bad name shows at once. Null where it has no name.
std::unique_ptr<OutputFile> open_beside(RunFiles& files, const std::string& path, InterruptGuard& interrupts,
                                        const OutputForm& form = {});

// Writes a file beside the output that tells about the run.
void finish_report(OutputFile& file, const std::string& text, bool sync);

} // namespace hw4
