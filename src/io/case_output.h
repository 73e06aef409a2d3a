// The output of a case: one file or, for gradients as arrays, one for each of dQ, dK and dV.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/io/output_file.h"

namespace hw4 {

class CaseOutput {
public:
    // `names`: one for all outputs of the operation, or one for each. Opened before the work, so that a bad name shows
    // at once; `program` is told of in remarks. Throws Error (usage, cannot_create).
    CaseOutput(const char* program, const std::vector<std::string>& names, const CaseReader& input,
               InterruptGuard& interrupts, const std::vector<FileIdentity>& kept);

    // Takes the outputs of each batch one after the other, however many files there are.
    OutputFile& stream() { return stream_ ? *stream_ : *files_.front(); }

    void finish(bool sync);
    // All files are complete by then: only a rename that fails leaves some new ones beside old ones.
    void publish(bool sync);
    bool writes_to(int other) const;

private:
    std::vector<std::unique_ptr<OutputFile>> files_;
    std::unique_ptr<OutputFile> stream_; // into the files, where there are several
};

} // namespace hw4
