// Operations of all ranks on many numbers, beside the few bytes of Ranks::exchange(). All ranks must make every call.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hw4 {

class Ranks;

// A range of a vector.
struct Piece {
    size_t first = 0;
    size_t count = 0;
};

class Collectives {
public:
    virtual ~Collectives() = default;

    // Replaces the numbers of every rank by the sums over all ranks, in any order that the library chooses.
    virtual void sum(float* values, size_t count) = 0;
    // to[k] of `values` goes to rank k; from[k] of `received` comes from rank k.
    virtual void all_to_all(const float* values, const std::vector<Piece>& to, float* received,
                            const std::vector<Piece>& from) = 0;
    // Rank k's numbers are in pieces[k]; every rank gets all pieces.
    virtual void all_gather(float* values, const std::vector<Piece>& pieces) = 0;
    // A barrier.
    virtual void meet() = 0;

    // Whether sum() accepts device memory.
    virtual bool takes_device_memory() const { return false; }
    // "Open MPI 4.1.4"; empty: none.
    virtual std::string library() const { return ""; }
};

// Uses Ranks::exchange(): for a single rank, and for threads of one process, which are few and add up little.
class ExchangedNumbers : public Collectives {
public:
    explicit ExchangedNumbers(Ranks& ranks) : ranks_(ranks) {}

    void sum(float* values, size_t count) override;
    void all_to_all(const float* values, const std::vector<Piece>& to, float* received,
                    const std::vector<Piece>& from) override;
    void all_gather(float* values, const std::vector<Piece>& pieces) override;
    void meet() override;

private:
    Ranks& ranks_;
};

} // namespace hw4
