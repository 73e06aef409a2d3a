// A run of one case from file to file. Threads of their own read and check pieces of the input; the calling thread
// first makes the engine, which for a GPU takes as long as reading hundreds of megabytes, and then feeds it; other
// threads write what it has computed (conveyor.h). Only the slowest of them shows in the time of the run.
//
// The host's memory is that of the staging buffers, however large the file, and of the CPU engine's slots.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "src/run/conveyor.h"

namespace hw4 {

struct CaseRun {
    CaseReader& input;
    OutputFile& output; // written but not yet published
    EngineOptions options;
    StagingLimits limits;
    ChooseEngine choose_engine;
    Timeline* timeline = nullptr;
    OutputFile* lse = nullptr;            // for the logsumexp of every output row
    OutputChecksums* checksums = nullptr; // given all that is written
    // Parts of the input's problem, computed one after the other, their rows where those of the whole case are; others
    // have the other parts. Both outputs have random access, and room for all. Null: the whole case.
    const std::vector<CasePart>* parts = nullptr;
};

struct RunReport {
    Problem problem;
    EngineFacts engine; // of the last part; no device where there are no parts
    int readers = 0;
    int writers = 0;
    size_t staging_bytes = 0;
    std::string output_crc32; // empty where nobody wants to know
    std::string lse;          // the name of that file; empty: none
    std::string lse_crc32;
    // Only where the case was computed in parts:
    std::exception_ptr failure;   // the flaw that comes first in the file, or else the first part's that has failed
    std::vector<SeenInPart> seen; // of batches that are others' too, each by part
};

// Throws the first error of any stage; with parts, only where no part could be computed.
RunReport run_case(const CaseRun& run);

// One engine for any case.
ChooseEngine always(const MakeEngine& make_engine);

// Threads for a machine with so many processors.
StagingLimits staging_limits(int processors);

} // namespace hw4
