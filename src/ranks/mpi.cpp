// The ranks of a build with MPI, which is started only where something has started several processes: by itself a
// process is as quick as in a build without.
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <limits>
#include <numeric>

#include "src/ranks/agree.h"
#include "src/ranks/launched.h"
#include "src/ranks/one_rank.h"

namespace hw4 {
namespace {

// An error of any call here ends all ranks, with MPI's own words (MPI_ERRORS_ARE_FATAL): nobody could be told.
class MpiRanks : public Ranks {
public:
    MpiRanks() {
        start();
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &count_);
        MPI_Comm here = MPI_COMM_NULL;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
        MPI_Comm_rank(here, &node_rank_);
        MPI_Comm_free(&here);
    }
    ~MpiRanks() override { MPI_Finalize(); }
    MpiRanks(const MpiRanks&) = delete;
    MpiRanks& operator=(const MpiRanks&) = delete;

    int rank() const override { return rank_; }
    int count() const override { return count_; }
    int node_rank() const override { return node_rank_; }
    std::string node() const override { return machine_name(); }

    std::vector<std::string> exchange(const std::string& mine) override {
        const auto ranks = static_cast<size_t>(count_);
        uint64_t size = mine.size();
        std::vector<uint64_t> sizes(ranks);
        MPI_Allgather(&size, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
        const uint64_t all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
        if (all > static_cast<uint64_t>(std::numeric_limits<int>::max())) // the same on all of them
            throw AgreedError(ExitCode::out_of_memory, "the ranks have " + std::to_string(all) +
                                                           " bytes to tell one another, which MPI cannot pass on");
        std::vector<int> counts(ranks);
        std::vector<int> places(ranks);
        for (size_t i = 0; i < ranks; ++i) {
            counts[i] = static_cast<int>(sizes[i]);
            places[i] = i == 0 ? 0 : places[i - 1] + counts[i - 1];
        }
        std::string together(static_cast<size_t>(all), '\0');
        MPI_Allgatherv(mine.data(), static_cast<int>(size), MPI_BYTE, together.data(), counts.data(), places.data(),
                       MPI_BYTE, MPI_COMM_WORLD);
        std::vector<std::string> each;
        for (size_t i = 0; i < ranks; ++i) each.push_back(together.substr(static_cast<size_t>(places[i]), sizes[i]));
        return each;
    }

    [[noreturn]] void abort(ExitCode code) noexcept override {
        MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
        ::_exit(static_cast<int>(code));
    }

private:
    // MPI's threads must not be given the signals that InterruptGuard waits for later.
    static void start() {
        sigset_t signals{};
        sigset_t before{};
        sigemptyset(&signals);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
        pthread_sigmask(SIG_BLOCK, &signals, &before);
        int provided = 0;
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        if (provided < MPI_THREAD_FUNNELED)
            throw Error(ExitCode::internal, "this MPI cannot be used by a program with threads");
    }

    int rank_ = 0;
    int count_ = 1;
    int node_rank_ = 0;
};

} // namespace

std::unique_ptr<Ranks> start_ranks() {
    const Launched launched = launched_as();
    if (launched.tasks <= 1) return std::make_unique<OneRank>();
    auto ranks = std::make_unique<MpiRanks>();
    if (ranks->count() > 1) return ranks;
    // Each was started, but MPI found no way to the others (srun without --mpi=pmix).
    return std::make_unique<OneRank>(alone_among(launched, "MPI knows of one (with Slurm: srun --mpi=pmix)"));
}

} // namespace hw4
