// The cases of a run, as whoever runs them has them.
#pragma once

#include <exception>

#include "src/io/case_file.h"
#include "src/io/output_file.h"
#include "src/problem/case_part.h"
#include "src/problem/domain.h"
#include "src/run/engine.h"
#include "src/run/output_checksum.h"
#include "src/run/staging_plan.h"

namespace hw4 {

struct RunCase {
    CaseReader* input = nullptr;
    OutputFile* output = nullptr;
    OutputChecksum* checksum = nullptr; // given all that is written; null where nobody wants to know
    std::exception_ptr failure;         // the first; set from the beginning where the case could not be opened
    EngineFacts engine;                 // what computed it
    OutputFile* lse = nullptr;          // for the logsumexp of every output row; null where nobody asks for it
    OutputChecksum* lse_checksum = nullptr;
    const CasePart* part = nullptr; // of the input's problem, whose rows are computed and no others; null: all of them
    SeenInPart seen{};              // by then: of the batch that the part has not all of, for who joins all parts

    const Problem& problem() const { return part == nullptr ? input->problem() : part->problem; }
    // Whether parts can be written in any order.
    bool random_access() const { return output->random_access() && (lse == nullptr || lse->random_access()); }
};

inline StagingPlan plan_staging(const RunCase& opened, const StagingLimits& limits) {
    return plan_staging(opened.problem(), opened.input->random_access(), opened.random_access(), limits,
                        opened.lse == nullptr ? 0 : sizeof(RowStatistics));
}

class RunCases {
public:
    virtual ~RunCases() = default;

    // The next one, which stays where it is until it is settled; null after the last. May wait for it, by a thread that
    // does nothing else.
    virtual RunCase* next() = 0;
    // By another thread, when the run stops: a next() that waits returns null.
    virtual void give_up() = 0;
    // All of its output is written, or it has failed. In the order of the cases, one at a time, by any thread.
    virtual void settled(RunCase& settled) = 0;
};

} // namespace hw4
