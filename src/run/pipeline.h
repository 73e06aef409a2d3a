// A run of one case from file to file. Threads of their own read and check pieces of the input; the calling thread
// first makes the engine, which for a GPU takes as long as reading hundreds of megabytes, and then feeds it; other
// threads write what it has computed (conveyor.h). Only the slowest of them shows in the time of the run.
//
// The host's memory is that of the staging buffers, however large the file, and of the CPU engine's slots.
#pragma once

#include <exception>
#include <vector>

#include "src/io/case_file.h"
#include "src/io/output_file.h"
#include "src/problem/case_part.h"
#include "src/problem/domain.h"
#include "src/run/conveyor.h"
#include "src/run/engine.h"
#include "src/run/output_checksum.h"
#include "src/run/staging_plan.h"

namespace hw4 {

struct RunReport {
    Problem problem;
    EngineFacts engine;
    int readers = 0;
    int writers = 0;
    size_t staging_bytes = 0;
    std::string output_crc32; // empty where nobody wants to know
    std::string lse;          // the name of that file; empty: none
    std::string lse_crc32;
};

// A file for the logsumexp of every output row.
struct LseOutput {
    OutputFile* file = nullptr; // null: nobody asks for it
    OutputChecksum* checksum = nullptr;
};

// Threads for a machine with so many processors.
StagingLimits staging_limits(int processors);

// The output is written but not yet published. `timeline` and the checksums, which are given all that is written, may
// be null. Throws the first error of any stage.
RunReport run_pipeline(CaseReader& input, OutputFile& output, const EngineOptions& options, const StagingLimits& limits,
                       const MakeEngine& make_engine, Timeline* timeline, OutputChecksum* checksum = nullptr,
                       const LseOutput& lse = {});

// Parts of a case, which others have the other parts of.
struct PartsReport {
    EngineFacts engine; // of the last one; of none where there are no parts
    int readers = 0;
    int writers = 0;
    size_t staging_bytes = 0;
    std::exception_ptr failure;   // the flaw that comes first in the file, or else the first part's that has failed
    std::vector<SeenInPart> seen; // of batches that are others' too, each by part
};

// The same for some parts of the input's problem, one after the other, their rows where those of the whole case are.
// Both outputs have random access, and room for it. Throws where no part could be computed.
PartsReport run_parts(CaseReader& input, const std::vector<CasePart>& parts, OutputFile& output,
                      const EngineOptions& options, const StagingLimits& limits, const ChooseEngine& choose_engine,
                      Timeline* timeline, OutputChecksum* checksum = nullptr, const LseOutput& lse = {});

} // namespace hw4
