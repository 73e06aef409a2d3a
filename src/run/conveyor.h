// Cases from file to file, one after the other, without a gap: while one is computed and written, the next is read.
// Threads, staging buffers and engines are made once and stay for all cases.
//
//     one thread opens cases -> CaseLine
//     reader threads -> StagingRing -> this thread: copy_in, compute -> PartQueue -> writer threads: fetch, write
//
// Every stage takes pieces and parts in the order of the cases. At a case's end nobody waits for anybody: the readers
// go on with the next case, this thread lets the engine begin it once it has fed the last piece, and its chunks take
// the slots in turn where those of the case before have stopped. Only where the engine has to move its slots, or
// another engine takes over, all output has to be fetched first. The writer that has written the last part of a case
// settles it.
//
// A case fails alone: its pieces and parts that are under way are dropped, and the next follows. Only a broken engine,
// or the want of threads, stops the run.
#pragma once

#include <exception>
#include <functional>
#include <memory>
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
    OutputFile* lse = nullptr;            // for the logsumexp of every output row; null where nobody asks for it
    OutputChecksums* checksums = nullptr; // given all that is written; null where nobody wants to know
    const CasePart* part = nullptr; // of the input's problem, whose rows are computed and no others; null: all of them

    // What came of it.
    std::exception_ptr failure{}; // the first; set from the beginning where the case could not be opened
    EngineFacts engine{};         // what computed it
    SeenInPart seen{};            // of the batch that the part has not all of, for who joins all parts

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

    // The next one, which stays where it is until it is settled; null after the last. May wait for it, by a thread that
    // does nothing else.
    virtual RunCase* next() = 0;
    // Another thread calls this when the run stops: a next() that waits returns null.
    virtual void give_up() = 0;
    // All of its output is written, or it has failed. In the order of the cases, one at a time, by any thread.
    virtual void settled(RunCase& settled) = 0;
};

// An engine for a case. Those of one device are one, made for the first case that it is chosen for.
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
