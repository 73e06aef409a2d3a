// Runs a test's case through the pipeline.
#pragma once

#include <string>

#include "src/io/case_header.h"
#include "src/run/pipeline.h"
#include "tests/support/attention_case.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {

// The output's bytes of a case that passes through the pipeline.
inline std::string from_file_to_file(const AttentionCase& test, const EngineOptions& options,
                                     const StagingLimits& limits, const MakeEngine& make_engine) {
    const TemporaryFolder folder;
    const Bytes header = header_of(test.problem);
    write_file(folder / "a.in", bytes_of(header.data(), header.size()) + bytes_of(test.qkv.data(), test.qkv.size()));
    InterruptGuard interrupts;
    CaseReader input(folder / "a.in");
    OutputFile output(folder / "a.out", interrupts);
    run_case({input, output, options, limits, always(make_engine)});
    output.commit(false);
    return read_file(folder / "a.out");
}

} // namespace hw4
