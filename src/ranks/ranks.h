// Several who compute one case together, each a share of it: processes that mpirun or srun has started, or threads of
// one. All that they tell one another goes through exchange() and to_first(), by one thread of each at a time, and
// numbers in bulk through collectives(); nothing else of the program knows of MPI.
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
    // Among those on the same machine, who share its cards.
    virtual int node_rank() const = 0;
    // Whether all are threads of this process, so that what it has is of all of them.
    virtual bool in_one_process() const { return false; }
    // The machine's name.
    virtual std::string node() const = 0;

    // What each has given, by rank. A call of one rank returns after the same call of all of them.
    virtual std::vector<std::string> exchange(const std::string& mine) = 0;
    // The same, but only the first is given it, and the others nothing.
    virtual std::vector<std::string> to_first(const std::string& mine) {
        std::vector<std::string> all = exchange(mine);
        return is_first() ? all : std::vector<std::string>();
    }

    // For as long as the ranks live.
    virtual std::unique_ptr<Collectives> collectives();

    // For who cannot take part in the next exchange, for which the others would wait for ever: ends them all.
    [[noreturn]] virtual void abort(ExitCode code) noexcept = 0;

    // Why no case is to be computed: of several tasks that cannot be brought together each would write the output.
    virtual std::string why_no_case() const { return ""; }

    // The one who speaks for all.
    bool is_first() const { return rank() == 0; }
};

// Those whom this process was started with; by itself it is the only one.
std::unique_ptr<Ranks> start_ranks();

// Ranks that are threads of one process, as for several cards in one machine.
//
// Runs `body` once for each rank, the first one's by the calling thread. A body may only throw where those of the
// others do too, or they fail in their next exchange. Throws what the first rank's throws, or else the next one's; what
// fails for another's failure last.
void on_thread_ranks(int count, const std::function<void(Ranks&)>& body);

} // namespace hw4
