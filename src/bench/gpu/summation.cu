// Sums over ranks of vectors on GPUs: their memory, and NCCL, which is loaded only for an all-reduce; hw4 does not link
// it.
#include <cuda_runtime.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/bench/summation.h"
#include "src/bench/workbench.h"
#include "src/gpu/device.h"
#include "src/gpu/device/loaded_library.h"
#include "src/gpu/device/memory.h"

namespace hw4::bench {
namespace {

// Uses its own stream: kernels of other streams continue.
class CardFloats : public FloatMemory {
public:
    explicit CardFloats(size_t count)
        : stream_(gpu::make_stream()), memory_(gpu::make_scratch(count * sizeof(float))) {}

    float* data() const override { return static_cast<float*>(memory_.get()); }
    void put(size_t first, const float* from, size_t count) override {
        copy(data() + first, from, count, cudaMemcpyHostToDevice);
    }
    void get(size_t first, size_t count, float* to) const override {
        copy(to, data() + first, count, cudaMemcpyDeviceToHost);
    }

private:
    void copy(float* to, const float* from, size_t count, cudaMemcpyKind kind) const {
        HW4_CUDA(cudaMemcpyAsync(to, from, count * sizeof(float), kind, stream_.get()));
        HW4_CUDA(cudaStreamSynchronize(stream_.get()));
    }

    gpu::Stream stream_;
    gpu::Scratch memory_;
};

class PinnedFloats : public HostFloats {
public:
    explicit PinnedFloats(size_t count) : HostFloats(count), pinned_(gpu::pin(data(), count * sizeof(float))) {}

private:
    gpu::Pinned pinned_; // must be released before the memory
};

// Constants from nccl.h, which a machine that builds hw4 need not have.
constexpr int kFloat = 7; // ncclFloat32
constexpr int kSum = 0;   // ncclSum
struct UniqueId {
    std::array<char, 128> bytes;
};
using Communicator = void*;

// NCCL and its required functions.
class Library {
public:
    Library() {
        library_.need(get_version, "ncclGetVersion");
        library_.need(get_unique_id, "ncclGetUniqueId");
        library_.need(init_rank, "ncclCommInitRank");
        library_.need(all_reduce, "ncclAllReduce");
        library_.need(destroy, "ncclCommDestroy");
        library_.need(error_string, "ncclGetErrorString");
        library_.find(last_error, "ncclGetLastError"); // since 2.13
    }

    // Why it cannot be used; empty: it can.
    const std::string& lacking() const { return library_.lacking(); }

    // "NCCL: invalid usage (...)", for a call that did not return 0.
    std::string words_of(int status, const char* call) const {
        const char* const more = last_error == nullptr ? nullptr : last_error(nullptr);
        const std::string told = more == nullptr ? "" : more;
        const std::string detail = told.substr(0, told.find('\n'));
        return std::string(call) + ": " + error_string(status) + (detail.empty() ? "" : ": " + detail);
    }

    std::string version() const {
        int number = 0;
        if (get_version(&number) != 0) return "NCCL";
        return "NCCL " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
               std::to_string(number % 100);
    }

    int (*get_version)(int* version) = nullptr;
    int (*get_unique_id)(UniqueId* id) = nullptr;
    int (*init_rank)(Communicator* communicator, int ranks, UniqueId id, int rank) = nullptr;
    int (*all_reduce)(const void* from, void* to, size_t count, int type, int operation, Communicator communicator,
                      cudaStream_t stream) = nullptr;
    int (*destroy)(Communicator communicator) = nullptr;
    const char* (*error_string)(int status) = nullptr;
    const char* (*last_error)(Communicator communicator) = nullptr;

private:
    gpu::LoadedLibrary library_{{"libnccl.so.2"}};
};

// Throws on all ranks the reason of the first rank that has one.
void agree_on(const std::string& reason, Ranks& ranks) {
    for (const std::string& of_rank : ranks.exchange(reason))
        if (!of_rank.empty()) throw Unsupported(of_rank);
}

class NcclSummation : public Summation {
public:
    NcclSummation(SumNode share, Ranks& ranks) : share_(share) {
        agree_on(library_.lacking(), ranks);
        UniqueId id{};
        std::string reason;
        if (ranks.is_first())
            if (const int status = library_.get_unique_id(&id); status != 0)
                reason = library_.words_of(status, "ncclGetUniqueId");
        agree_on(reason, ranks);
        const std::string first = ranks.exchange({id.bytes.data(), id.bytes.size()}).front();
        std::memcpy(id.bytes.data(), first.data(), id.bytes.size());
        try {
            stream_ = gpu::make_stream();
        } catch (const Error& error) {
            reason = error.what();
        }
        agree_on(reason, ranks);
        // Ranks that share a GPU all get this error ("Duplicate GPU detected").
        if (const int status = library_.init_rank(&communicator_, ranks.count(), id, ranks.rank()); status != 0) {
            communicator_ = nullptr;
            reason = library_.words_of(status, "ncclCommInitRank");
        }
        try {
            agree_on(reason, ranks);
        } catch (const Unsupported&) {
            destroy();
            throw;
        }
    }
    ~NcclSummation() override { destroy(); }
    NcclSummation(const NcclSummation&) = delete;
    NcclSummation& operator=(const NcclSummation&) = delete;

    std::vector<SumNode> parts() const override { return {share_}; }

    void sum(FloatMemory& memory, size_t count) override {
        float* const values = memory.data();
        const int status = library_.all_reduce(values, values, count, kFloat, kSum, communicator_, stream_.get());
        if (status != 0) throw Error(ExitCode::internal, library_.words_of(status, "ncclAllReduce"));
        HW4_CUDA(cudaStreamSynchronize(stream_.get()));
    }

    std::string path() const override { return library_.version(); }

private:
    void destroy() {
        if (communicator_ != nullptr) library_.destroy(communicator_);
        communicator_ = nullptr;
    }

    SumNode share_;
    Library library_;
    gpu::Stream stream_;
    Communicator communicator_ = nullptr;
};

} // namespace

std::unique_ptr<FloatMemory> card_floats(size_t count) { return std::make_unique<CardFloats>(count); }
std::unique_ptr<FloatMemory> pinned_floats(size_t count) { return std::make_unique<PinnedFloats>(count); }

std::string card_identity() {
    std::array<char, 32> bus{};
    HW4_CUDA(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), gpu::card_in_use()));
    return bus.data();
}

std::unique_ptr<Summation> nccl_summation(SumNode share, Ranks& ranks) {
    return std::make_unique<NcclSummation>(share, ranks);
}

} // namespace hw4::bench
