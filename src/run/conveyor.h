// Runs cases from file to file without a gap: while one is computed and written, the next is read. Threads, staging
// buffers and engines are created once and serve all cases.
//
//     one thread opens cases -> CaseLine
//     reader threads -> StagingRing -> this thread: copy_in, compute -> PartQueue -> writer threads: fetch, write
//
// Every stage takes pieces and parts in the order of the cases. No stage waits at a case's end: the readers continue
// with the next case, this thread lets the engine begin it after it has fed the last piece, and its chunks take the
// slots in turn after the chunks of the case before. Only where the engine must move its slots, or another engine takes
// over, must all output be fetched first. The writer of a case's last part settles the case.
//
// A case fails alone: its remaining pieces and parts are dropped, and the next case follows. Only a broken engine or a
// lack of threads stops the run.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "src/io/case_file.h"
#include "src/io/output_file.h"
#include "src/problem/case_part.h"
#include "src/problem/domain.h"
#include "src/run/engine.h"
#include "src/run/output_checksum.h"
#include "src/run/staging_plan.h"
#include "src/run/timeline.h"

namespace hw4 {

struct OutputChecksums {
    OutputChecksum output;
    OutputChecksum lse;
};

// A case of a run.
struct RunCase {
    CaseReader* input = nullptr;
    OutputFile* output = nullptr;
    OutputFile* lse = nullptr;            // for the logsumexp of every output row; null: not asked for
    OutputChecksums* checksums = nullptr; // gets everything that is written; null: not asked for
    const CasePart* part = nullptr;       // of the input's problem, the only rows to compute; null: all rows

    // The results.
    std::exception_ptr failure{}; // the first; set from the start where the case could not be opened
    EngineFacts engine{};         // the engine that computed it
    SeenInPart seen{};            // of the batch that the part shares with others, for joining all parts

    const Problem& problem() const { return part == nullptr ? input->problem() : part->problem; }
    // Whether parts can be written in any order.
    bool random_access() const { return output->random_access() && (lse == nullptr || lse->random_access()); }
};

inline StagingPlan plan_staging(const RunCase& opened, const StagingLimits& limits) {
    return plan_staging(opened.problem(), opened.input->random_access(), opened.random_access(), limits,
                        opened.lse == nullptr ? 0 : sizeof(RowStatistics));
}

// The cases of a run.
class RunCases {
public:
    virtual ~RunCases() = default;

    // The next case, which keeps its address until it is settled; null after the last. May wait for it; its thread does
    // nothing else.
    virtual RunCase* next() = 0;
    // Another thread calls this when the run stops: a waiting next() returns null.
    virtual void give_up() = 0;
    // The case's output is written, or it has failed. Called in the order of the cases, one at a time, by any thread.
    virtual void settled(RunCase& settled) = 0;
};

// Makes an engine for a case. Cases with the same device share one, made for the first of them.
struct EngineMaker {
    std::string device;
    MakeEngine make;
};
using ChooseEngine = std::function<EngineMaker(const EngineRequest&)>;

struct ConveyorSetup {
    EngineOptions options;
    StagingLimits limits;
    StagingPlan plan;           // the buffers and threads of the run
    bool many = true;           // false: there is one case, which is already open
    ChooseEngine choose_engine; // called by the thread that calls run_conveyor()
    Timeline* timeline = nullptr;
};

// Until all cases are settled, and the engines have completed the timeline and given back what they have. Throws what
// has stopped the run: then some cases are not settled.
void run_conveyor(RunCases& cases, ConveyorSetup setup);

} // namespace hw4
