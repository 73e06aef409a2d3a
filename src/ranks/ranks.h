// Ranks compute one case together, each a share of it: processes that mpirun or srun has started, or threads of one
// process. They communicate through exchange() and to_first(), by one thread of each rank at a time, and transfer large
// data through collectives(); no other part of the program knows of MPI.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/ranks/collectives.h"

namespace hw4 {

class Ranks {
public:
    virtual ~Ranks() = default;

    virtual int rank() const = 0;
    virtual int count() const = 0;
    // The number among the ranks on the same machine, which share its GPUs.
    virtual int node_rank() const = 0;
    // Whether all ranks are threads of this process and share its resources.
    virtual bool in_one_process() const { return false; }
    // The machine's name.
    virtual std::string node() const = 0;

    // What each rank has given, by rank. Returns after all ranks have made the same call.
    virtual std::vector<std::string> exchange(const std::string& mine) = 0;
    // The same, but only the first rank gets the result; the others get nothing.
    virtual std::vector<std::string> to_first(const std::string& mine) {
        std::vector<std::string> all = exchange(mine);
        return is_first() ? all : std::vector<std::string>();
    }

    // Valid as long as the ranks.
    virtual std::unique_ptr<Collectives> collectives();

    // For a rank that cannot take part in the next exchange, where the others would wait forever: ends all ranks.
    [[noreturn]] virtual void abort(ExitCode code) noexcept = 0;

    // The reason for computing no case: each of several tasks that cannot reach each other would write the output.
    virtual std::string why_no_case() const { return ""; }

    // The first rank prints for all.
    bool is_first() const { return rank() == 0; }
};

// The ranks that this process was started with; a process alone is the only rank.
std::unique_ptr<Ranks> start_ranks();

// Ranks that are threads of one process, as for several GPUs in one machine.
//
// Runs `body` once for each rank, the first rank's in the calling thread. A body may only throw where all other bodies
// throw too; otherwise they fail in their next exchange. Throws the first rank's exception, or else the next one's;
// exceptions that only follow another's failure come last.
void on_thread_ranks(int count, const std::function<void(Ranks&)>& body);

} // namespace hw4
