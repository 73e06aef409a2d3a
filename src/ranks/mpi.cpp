// The ranks of a build with MPI, which is initialized only where a launcher has started several processes: a single
// process is as fast as in a build without MPI.
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <limits>

#include "src/ranks/agree.h"
#include "src/ranks/launched.h"

namespace hw4 {
namespace {

// The most floats in one call: their bytes must fit an int, too.
constexpr size_t kMostFloats = size_t{1} << 28;

// Pieces as MPI describes them.
struct Places {
    std::vector<int> counts;
    std::vector<int> firsts;

    explicit Places(const std::vector<Piece>& pieces) {
        for (const Piece& piece : pieces) {
            counts.push_back(as_int(piece.count));
            firsts.push_back(as_int(piece.first));
        }
    }

private:
    static int as_int(size_t number) {
        if (number > static_cast<size_t>(std::numeric_limits<int>::max()))
            throw Error(ExitCode::internal, std::to_string(number) + " numbers are more than MPI takes in a call");
        return static_cast<int>(number);
    }
};

class MpiCollectives : public Collectives {
public:
    void sum(float* values, size_t count) override {
        for (size_t done = 0; done < count; done += kMostFloats)
            MPI_Allreduce(MPI_IN_PLACE, values + done, static_cast<int>(std::min(count - done, kMostFloats)), MPI_FLOAT,
                          MPI_SUM, MPI_COMM_WORLD);
    }

    void all_to_all(const float* values, const std::vector<Piece>& to, float* received,
                    const std::vector<Piece>& from) override {
        // The pieces may begin beyond an int's range, and lie farther apart than an int can count.
        const size_t base = std::min_element(to.begin(), to.end(), begins_before)->first;
        std::vector<Piece> sent = moved_by(base, to);
        const float* start = values + base;
        std::vector<float> together;
        if (!std::all_of(sent.begin(), sent.end(), ends_within_int)) {
            for (Piece& piece : sent) {
                const float* const numbers = start + piece.first;
                piece.first = together.size();
                together.insert(together.end(), numbers, numbers + piece.count);
            }
            start = together.data();
        }
        const Places places(sent);
        const Places got(from);
        MPI_Alltoallv(start, places.counts.data(), places.firsts.data(), MPI_FLOAT, received, got.counts.data(),
                      got.firsts.data(), MPI_FLOAT, MPI_COMM_WORLD);
    }

    void all_gather(float* values, const std::vector<Piece>& pieces) override {
        const size_t base = std::min_element(pieces.begin(), pieces.end(), begins_before)->first;
        const std::vector<Piece> moved = moved_by(base, pieces);
        if (!std::all_of(moved.begin(), moved.end(), ends_within_int)) return broadcast_each(values, pieces);
        const Places places(moved);
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values + base, places.counts.data(), places.firsts.data(),
                       MPI_FLOAT, MPI_COMM_WORLD);
    }

    void meet() override { MPI_Barrier(MPI_COMM_WORLD); }

    bool takes_device_memory() const override {
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
        return MPIX_Query_cuda_support() == 1;
#else
        return false;
#endif
    }

    // The first words of MPI's version text, up to a comma or the end of the line.
    std::string library() const override {
        std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
        int length = 0;
        MPI_Get_library_version(text.data(), &length);
        const std::string words(text.data(), static_cast<size_t>(length));
        return words.substr(0, words.find_first_of(",\n\t"));
    }

private:
    // For pieces with too many numbers for one call.
    static void broadcast_each(float* values, const std::vector<Piece>& pieces) {
        for (size_t rank = 0; rank < pieces.size(); ++rank)
            for (size_t done = 0; done < pieces[rank].count; done += kMostFloats)
                MPI_Bcast(values + pieces[rank].first + done,
                          static_cast<int>(std::min(pieces[rank].count - done, kMostFloats)), MPI_FLOAT,
                          static_cast<int>(rank), MPI_COMM_WORLD);
    }

    static bool begins_before(const Piece& a, const Piece& b) { return a.first < b.first; }
    static bool ends_within_int(const Piece& piece) {
        return piece.first + piece.count <= static_cast<size_t>(std::numeric_limits<int>::max());
    }
    static std::vector<Piece> moved_by(size_t base, std::vector<Piece> pieces) {
        for (Piece& piece : pieces) piece.first -= base;
        return pieces;
    }
};

// An error in any MPI call ends all ranks, with MPI's own message (MPI_ERRORS_ARE_FATAL): no rank could be told.
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
        const std::vector<Piece> pieces = pieces_of(mine);
        const Places places(pieces);
        std::string together(end_of(pieces), '\0');
        MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, together.data(), places.counts.data(),
                       places.firsts.data(), MPI_BYTE, MPI_COMM_WORLD);
        return apart(together, pieces);
    }

    std::vector<std::string> to_first(const std::string& mine) override {
        const std::vector<Piece> pieces = pieces_of(mine);
        const Places places(pieces);
        std::string together(is_first() ? end_of(pieces) : 0, '\0');
        MPI_Gatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, together.data(), places.counts.data(),
                    places.firsts.data(), MPI_BYTE, 0, MPI_COMM_WORLD);
        return is_first() ? apart(together, pieces) : std::vector<std::string>();
    }

    std::unique_ptr<Collectives> collectives() override { return std::make_unique<MpiCollectives>(); }

    [[noreturn]] void abort(ExitCode code) noexcept override {
        MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
        ::_exit(static_cast<int>(code));
    }

private:
    // The places of each rank's bytes, one rank after another.
    std::vector<Piece> pieces_of(const std::string& mine) const {
        const uint64_t size = mine.size();
        std::vector<uint64_t> sizes(static_cast<size_t>(count_));
        MPI_Allgather(&size, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
        std::vector<Piece> pieces;
        for (const uint64_t bytes : sizes) pieces.push_back({end_of(pieces), static_cast<size_t>(bytes)});
        if (end_of(pieces) > static_cast<size_t>(std::numeric_limits<int>::max())) // the same on all of them
            throw AgreedError(ExitCode::out_of_memory, "the ranks have " + std::to_string(end_of(pieces)) +
                                                           " bytes to tell one another, which MPI cannot pass on");
        return pieces;
    }
    static size_t end_of(const std::vector<Piece>& pieces) {
        return pieces.empty() ? 0 : pieces.back().first + pieces.back().count;
    }

    static std::vector<std::string> apart(const std::string& together, const std::vector<Piece>& pieces) {
        std::vector<std::string> each;
        for (const Piece& piece : pieces) each.push_back(together.substr(piece.first, piece.count));
        return each;
    }

    // MPI's threads must not get the signals that InterruptGuard waits for later.
    static void start() {
        sigset_t signals{};
        sigset_t before{};
        sigemptyset(&signals);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
        pthread_sigmask(SIG_BLOCK, &signals, &before);
        int provided = 0;
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        if (provided < MPI_THREAD_SERIALIZED)
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
    // Each process was started, but MPI found no way to the others (srun without --mpi=pmix).
    return std::make_unique<OneRank>(alone_among(launched, "MPI knows of one (with Slurm: srun --mpi=pmix)"));
}

} // namespace hw4
