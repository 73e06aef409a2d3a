// Steps that a run of one case and one of many have in common.
#pragma once

#include <string>

#include "src/contracts/contract.h"
#include "src/io/case_file.h"
#include "src/io/output_file.h"

namespace hw4 {

// The ranges the course states, as a remark and no more: its own cases t12 and t22 break the one for B*N*d.
void remark_unusual(const std::string& input, const Problem& problem);

// Throws Error (bad_data).
void refuse_what_the_contract_lacks(const CaseReader& input, const Contract& contract);

// Writes a file beside the output that tells about the run.
void finish_report(OutputFile& file, const std::string& text, bool sync);

} // namespace hw4
