// Ways to add up a vector over ranks, which are timed: an all-reduce of MPI's, of NCCL's, or one in a fixed order.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "src/cpu/aligned_memory.h"
#include "src/ranks/collectives.h"
#include "src/ranks/ordered_sum.h"
#include "src/ranks/ranks.h"

namespace hw4::bench {

// Floats in the memory of the processor or of a GPU.
class FloatMemory {
public:
    virtual ~FloatMemory() = default;

    virtual float* data() const = 0; // for whoever has that memory
    virtual void put(size_t first, const float* from, size_t count) = 0;
    virtual void get(size_t first, size_t count, float* to) const = 0;
};

// Throws std::bad_alloc where there is no memory.
class HostFloats : public FloatMemory {
public:
    explicit HostFloats(size_t count) : memory_(cpu::allocate_aligned(count)) {}

    float* data() const override { return memory_.get(); }
    void put(size_t first, const float* from, size_t count) override { std::copy_n(from, count, data() + first); }
    void get(size_t first, size_t count, float* to) const override { std::copy_n(data() + first, count, to); }

private:
    cpu::AlignedFloats memory_;
};

std::unique_ptr<FloatMemory> host_floats(size_t count);
// On the card that the calling thread uses. Throws Error.
std::unique_ptr<FloatMemory> card_floats(size_t count);
// Host memory that the GPU copies from and to by itself.
std::unique_ptr<FloatMemory> pinned_floats(size_t count);
// What tells the card that the calling thread uses from others of its machine.
std::string card_identity();

enum class Via { mpi, nccl, ordered };
inline constexpr Via kEveryVia[] = {Via::mpi, Via::nccl, Via::ordered};

constexpr const char* name_of(Via via) { return via == Via::mpi ? "mpi" : via == Via::nccl ? "nccl" : "ordered"; }

class Summation {
public:
    virtual ~Summation() = default;

    // What this rank brings to a sum: nodes of the tree of contributions (src/ranks/ordered_sum.h). One for all but the
    // fixed order, whatever the contributions in it.
    virtual std::vector<SumNode> parts() const = 0;
    // Makes room for sums of up to so many numbers. What fails in sum() leaves the other ranks waiting; this does not.
    virtual void reserve(size_t /*count*/) {}
    // Called by all. The numbers [first, first + count) of this rank's parts, which are `stride` apart, become those of
    // the sum, in the place of the first part. Done when it returns.
    virtual void sum(FloatMemory& memory, size_t stride, size_t first, size_t count) = 0;
    // How the numbers go from rank to rank: "host memory", "host memory, staged", "NCCL 2.28.3".
    virtual std::string path() const = 0;
};

// What a rank has of so many contributions, added up as one part however they are divided.
SumNode share_of(int contributions, const Ranks& ranks);

// Called by all. Throws Unsupported, on all of them. `on_card`: where the vectors are.
std::unique_ptr<Summation> make_summation(Via via, bool on_card, int contributions, Ranks& ranks,
                                          Collectives& collectives);
// Of that, NCCL's: for vectors on cards.
std::unique_ptr<Summation> nccl_summation(SumNode share, Ranks& ranks);

} // namespace hw4::bench
