// Timed ways to add up a vector over ranks: MPI's all-reduce, NCCL's, or one in a fixed order.
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

    virtual float* data() const = 0; // in the owner's address space
    virtual void put(size_t first, const float* from, size_t count) = 0;
    virtual void get(size_t first, size_t count, float* to) const = 0;
};

// Throws std::bad_alloc where memory is short.
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
// Memory of the calling thread's GPU. Throws Error.
std::unique_ptr<FloatMemory> card_floats(size_t count);
// Pinned host memory, from which the GPU copies directly.
std::unique_ptr<FloatMemory> pinned_floats(size_t count);
// Distinguishes the calling thread's GPU from others in the machine.
std::string card_identity();

enum class Via { mpi, nccl, ordered };
inline constexpr Via kEveryVia[] = {Via::mpi, Via::nccl, Via::ordered};

constexpr const char* name_of(Via via) { return via == Via::mpi ? "mpi" : via == Via::nccl ? "nccl" : "ordered"; }

class Summation {
public:
    virtual ~Summation() = default;

    // This rank's parts of a sum: nodes of the tree of contributions (src/ranks/ordered_sum.h). Except for the fixed
    // order there is one part, for any contributions.
    virtual std::vector<SumNode> parts() const = 0;
    // Call before sum(): allocates for sums of this many numbers. A failure here, unlike one in sum(), leaves no rank
    // waiting.
    virtual void reserve(size_t /*count*/) {}
    // Called by all ranks. Replaces the numbers of this rank's first part by the sums over all ranks' parts, which are
    // `count` apart. Complete when it returns.
    virtual void sum(FloatMemory& memory, size_t count) = 0;
    // The path of the numbers between ranks: "host memory", "host memory, staged", "NCCL 2.28.3".
    virtual std::string path() const = 0;
};

// A rank's share of this many contributions as a single part, for every division.
SumNode share_of(int contributions, const Ranks& ranks);

// Called by all ranks. Throws Unsupported, on all of them. `on_card`: whether the vectors are on GPUs.
std::unique_ptr<Summation> make_summation(Via via, bool on_card, int contributions, Ranks& ranks,
                                          Collectives& collectives);
// NCCL's, for vectors on GPUs.
std::unique_ptr<Summation> nccl_summation(SumNode share, Ranks& ranks);

} // namespace hw4::bench
