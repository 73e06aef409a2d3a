// The files of a test's case, and its way through the pipeline.
#pragma once

#include <string>

#include "src/io/case_header.h"
#include "src/run/pipeline.h"
#include "tests/support/attention_case.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {

// Numbers as a file has them.
inline std::string stored(Element element, const std::vector<float>& values) {
    std::string bytes(values.size() * bytes_of(element), '\0');
    narrow(element, values.data(), values.size(), bytes.data());
    return bytes;
}

inline std::string file_of(const Problem& problem, const std::vector<float>& values, bool long_header = false) {
    const Bytes header = header_of(problem, long_header);
    return std::string(header.begin(), header.end()) + stored(problem.element, values);
}

// The output's bytes of a case that passes through the pipeline.
inline std::string from_file_to_file(const AttentionCase& test, const EngineOptions& options,
                                     const StagingLimits& limits, const MakeEngine& make_engine) {
    const TemporaryFolder folder;
    write_file(folder / "a.in", file_of(test.problem, test.qkv));
    InterruptGuard interrupts;
    CaseReader input(folder / "a.in");
    OutputFile output(folder / "a.out", interrupts);
    run_case({input, output, options, limits, always(make_engine)});
    output.commit(false);
    return read_file(folder / "a.out");
}

} // namespace hw4
