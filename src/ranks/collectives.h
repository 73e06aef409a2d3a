// What ranks do together with numbers in bulk, beside the few bytes that they tell one another in Ranks::exchange().
// Every call is one of all ranks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hw4 {

class Ranks;

// Some of the numbers of a vector.
struct Piece {
    size_t first = 0;
    size_t count = 0;
};

class Collectives {
public:
    virtual ~Collectives() = default;

    // Everybody's numbers become the sums of all, in whatever order the library adds them.
    virtual void sum(float* values, size_t count) = 0;
    // to[k] of `values` goes to rank k; what rank k sends comes to from[k] of `received`.
    virtual void all_to_all(const float* values, const std::vector<Piece>& to, float* received,
                            const std::vector<Piece>& from) = 0;
    // Rank k's numbers are in pieces[k]; everybody gets all of them.
    virtual void all_gather(float* values, const std::vector<Piece>& pieces) = 0;
    // Nobody returns before all have come.
    virtual void meet() = 0;

    // Whether sum() takes a card's memory as it is.
    virtual bool takes_device_memory() const { return false; }
    // "Open MPI 4.1.4"; empty: none.
    virtual std::string library() const { return ""; }
};

// Uses Ranks::exchange(): for one rank, and for threads of one process, which are few and have little to add up.
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
