#include "src/bench/summation.h"

#include "src/bench/workbench.h"

namespace hw4::bench {
namespace {

// Sums in host memory: data on a card is copied there and back.
class HostSummation : public Summation {
public:
    void reserve(size_t count) override {
        if (!on_card_ || takes_device_memory() || parts().size() * count <= staged_) return;
        staging_.reset();
        staged_ = 0;
        staging_ = pinned_floats(parts().size() * count);
        staged_ = parts().size() * count;
    }

    void sum(FloatMemory& memory, size_t stride, size_t first, size_t count) override {
        if (!on_card_ || takes_device_memory()) {
            sum_in_place(memory.data() + first, stride, count);
            return;
        }
        reserve(count);
        float* const here = staging_->data();
        for (size_t part = 0; part < parts().size(); ++part)
            memory.get(part * stride + first, count, here + part * count);
        sum_in_place(here, count, count);
        memory.put(first, here, count);
    }

    std::string path() const override {
        return !on_card_ ? "host memory" : takes_device_memory() ? "card memory" : "host memory, staged";
    }

protected:
    explicit HostSummation(bool on_card) : on_card_(on_card) {}

    virtual void sum_in_place(float* values, size_t stride, size_t count) = 0;
    virtual bool takes_device_memory() const { return false; }

private:
    bool on_card_;
    size_t staged_ = 0; // floats in the buffer:
    std::unique_ptr<FloatMemory> staging_;
};

class MpiSummation : public HostSummation {
public:
    MpiSummation(bool on_card, SumNode share, Collectives& collectives)
        : HostSummation(on_card), share_(share), collectives_(collectives) {}

    std::vector<SumNode> parts() const override { return {share_}; }

protected:
    void sum_in_place(float* values, size_t, size_t count) override { collectives_.sum(values, count); }
    bool takes_device_memory() const override { return collectives_.takes_device_memory(); }

private:
    SumNode share_;
    Collectives& collectives_;
};

class OrderedSummation : public HostSummation {
public:
    OrderedSummation(bool on_card, int contributions, const Ranks& ranks, Collectives& collectives)
        : HostSummation(on_card), ordered_(collectives, contributions, ranks.rank(), ranks.count()) {}

    std::vector<SumNode> parts() const override { return ordered_.parts(); }

protected:
    void sum_in_place(float* values, size_t stride, size_t count) override {
        OrderedSum::Parts of_rank;
        for (size_t part = 0; part < parts().size(); ++part) of_rank.push_back(values + part * stride);
        ordered_.sum(of_rank, {0, count}, values);
    }

private:
    OrderedSum ordered_;
};

} // namespace

std::unique_ptr<FloatMemory> host_floats(size_t count) { return std::make_unique<HostFloats>(count); }

SumNode share_of(int contributions, const Ranks& ranks) {
    const auto begin_of = [&](int rank) { return static_cast<int>(int64_t{contributions} * rank / ranks.count()); };
    const int first = begin_of(ranks.rank());
    return {first, begin_of(ranks.rank() + 1) - first, ranks.rank()};
}

std::unique_ptr<Summation> make_summation(Via via, bool on_card, int contributions, Ranks& ranks,
                                          Collectives& collectives) {
    const SumNode share = share_of(contributions, ranks);
    switch (via) {
    case Via::mpi: return std::make_unique<MpiSummation>(on_card, share, collectives);
    case Via::ordered: return std::make_unique<OrderedSummation>(on_card, contributions, ranks, collectives);
    case Via::nccl: break;
    }
    if (!on_card) throw Unsupported("NCCL adds up what is on cards: --device gpu");
    return nccl_summation(share, ranks);
}

} // namespace hw4::bench
