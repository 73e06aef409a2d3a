// The files of a case: opens the input and the outputs, refuses cases that cannot be computed and gives the outputs
// their names at the end. seq, hw4 with one case or many, and every rank use this class.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/io/case_file.h"
#include "src/io/output_file.h"
#include "src/io/run_files.h"
#include "src/run/case_options.h"

namespace hw4 {

class CaseFiles {
public:
    // Adds a case's file names to the run's. Throws Error (usage, no_input, cannot_create).
    static void add_names(RunFiles& files, const CaseNames& names, const CaseOptions& options);

    // Opens the input, a file or arrays, and reads its header. Also throws Error (bad_data) where the contract cannot
    // compute it and (usage) where an option asks for logsumexps that its rows do not have.
    CaseFiles(const CaseNames& names, const CaseOptions& options, const Contract& contract);
    CaseFiles(const CaseFiles&) = delete; // the stream into several outputs stores their addresses
    CaseFiles& operator=(const CaseFiles&) = delete;

    CaseReader& input() { return input_; }
    const Problem& problem() const { return input_.problem(); }

    // Opens all outputs before the work, so that a bad name shows immediately. Throws Error (usage, cannot_create).
    void open_outputs(InterruptGuard& interrupts);
    // Another rank has made the outputs; this one writes parts of them. `lse` is null where no option asks for it.
    void join_outputs(std::unique_ptr<OutputFile> output, std::unique_ptr<OutputFile> lse);
    OutputForm output_form() const;
    OutputForm lse_form() const;

    // Takes the outputs of each batch one after another, for one file or several.
    OutputFile& output() { return stream_ ? *stream_ : *outputs_.front(); }
    // Null where no option asks for it.
    OutputFile* lse() { return lse_.get(); }

    // "(B, N, d): (2, 128, 64)"
    std::string sizes_line() const;

    // Every output is complete and closed, under its temporary name.
    void finish(bool sync);
    // Call when all outputs are complete: only a rename that fails can leave some new files beside old ones. The
    // logsumexps come first: a new output then always has new logsumexps.
    void publish(bool sync);

private:
    void open_each_gradient(InterruptGuard& interrupts);

    const CaseNames names_;
    const CaseOptions& options_;
    CaseReader input_;
    std::vector<std::unique_ptr<OutputFile>> outputs_; // one, or one for each of dQ, dK and dV
    std::unique_ptr<OutputFile> stream_;               // distributes over several outputs
    std::unique_ptr<OutputFile> lse_;
};

} // namespace hw4
