// A run of one case from file to file. Separate threads read and check pieces of the input; the calling thread first
// makes the engine, which for a GPU takes as long as reading hundreds of megabytes, and then feeds it; other threads
// write the results (conveyor.h). Only the slowest stage determines the run's time.
//
// Host memory is limited to the staging buffers, however large the file, and to the CPU engine's slots.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "src/run/conveyor.h"

namespace hw4 {

struct CaseRun {
    CaseReader& input;
    OutputFile& output; // written but not published
    EngineOptions options;
    StagingLimits limits;
    ChooseEngine choose_engine;
    Timeline* timeline = nullptr;
    OutputFile* lse = nullptr;            // for the logsumexp of every output row
    OutputChecksums* checksums = nullptr; // gets everything that is written
    // Parts of the input's problem, computed in order, with their rows where the whole case has them; other ranks have
    // the other parts. Both outputs have random access, and space for all rows. Null: the whole case.
    const std::vector<CasePart>* parts = nullptr;
};

struct RunReport {
    Problem problem;
    EngineFacts engine; // for the last part; no device where there are no parts
    int readers = 0;
    int writers = 0;
    size_t staging_bytes = 0;
    std::string output_crc32; // empty: not asked for
    std::string lse;          // the file's name; empty: none
    std::string lse_crc32;
    // Only where the case was computed in parts:
    std::exception_ptr failure;   // for the first bad value in the file, or else the first part that failed
    std::vector<SeenInPart> seen; // of batches shared with other ranks, one entry per part
};

// Throws the first error of any stage; with parts, only where no part could be computed.
RunReport run_case(const CaseRun& run);

// The same engine for every case.
ChooseEngine always(const MakeEngine& make_engine);

// The threads for a machine with this many processors.
StagingLimits staging_limits(int processors);

} // namespace hw4
