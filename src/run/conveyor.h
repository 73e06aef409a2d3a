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

#include <functional>
#include <memory>
#include <string>

#include "src/run/engine.h"
#include "src/run/run_cases.h"
#include "src/run/staging_plan.h"
#include "src/run/timeline.h"

namespace hw4 {

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
    ChooseEngine choose_engine; // called by the thread that runs the conveyor
    Timeline* timeline = nullptr;
};

class Conveyor {
public:
    Conveyor(RunCases& cases, ConveyorSetup setup);
    ~Conveyor();
    Conveyor(const Conveyor&) = delete;
    Conveyor& operator=(const Conveyor&) = delete;

    // Until all cases are settled. Throws what has stopped the run: then some are not.
    void run();
    // Has the timeline completed and gives back what the engines have.
    void finish();

private:
    class Threads;
    std::unique_ptr<Threads> threads_;
};

} // namespace hw4
