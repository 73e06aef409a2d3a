// The output of a case: one file or, for gradients as arrays, one for each of dQ, dK and dV.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/io/case_file.h"
#include "src/io/output_file.h"
#include "src/io/run_files.h"

namespace hw4 {

class CaseOutput {
public:
    // `names`: one for all outputs of the operation, or one for each. Opened before the work, so that a bad name shows
    // at once. `files` has the inputs already. Throws Error (usage, cannot_create).
    CaseOutput(RunFiles& files, const std::vector<std::string>& names, const CaseReader& input,
               InterruptGuard& interrupts);
    CaseOutput(const CaseOutput&) = delete; // the stream knows where it is
    CaseOutput& operator=(const CaseOutput&) = delete;

    // Takes the outputs of each batch one after the other, however many files there are.
    OutputFile& stream() { return stream_ ? *stream_ : *files_.front(); }

    void finish(bool sync);
    // All files are complete by then: only a rename that fails leaves some new ones beside old ones.
    void publish(bool sync);

private:
    std::vector<std::unique_ptr<OutputFile>> files_;
    std::unique_ptr<OutputFile> stream_; // into the files, where there are several
};

} // namespace hw4
