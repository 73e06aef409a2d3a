#include "src/bench/summation.h"

#include <functional>
#include <utility>
#include <vector>

#include "src/bench/workbench.h"

namespace hw4::bench {
namespace {

// Sums in host memory. Data on a GPU is copied there and back, unless the way takes GPU memory.
class HostSummation : public Summation {
public:
    // `sum_in_place`: the sums of a rank's parts, `count` numbers each, replace the first part.
    using SumInPlace = std::function<void(float* values, size_t count)>;

    HostSummation(bool on_card, bool takes_device_memory, std::vector<SumNode> parts, SumInPlace sum_in_place)
        : on_card_(on_card), staged_(on_card && !takes_device_memory), parts_(std::move(parts)),
          sum_in_place_(std::move(sum_in_place)) {}

    std::vector<SumNode> parts() const override { return parts_; }

    void reserve(size_t count) override {
        if (staged_) staging_ = pinned_floats(parts_.size() * count);
    }

    void sum(FloatMemory& memory, size_t count) override {
        if (!staged_) return sum_in_place_(memory.data(), count);
        memory.get(0, parts_.size() * count, staging_->data());
        sum_in_place_(staging_->data(), count);
        memory.put(0, staging_->data(), count);
    }

    std::string path() const override {
        return staged_ ? "host memory, staged" : on_card_ ? "card memory" : "host memory";
    }

private:
    const bool on_card_;
    const bool staged_;
    const std::vector<SumNode> parts_;
    const SumInPlace sum_in_place_;
    std::unique_ptr<FloatMemory> staging_;
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
    if (via == Via::mpi)
        return std::make_unique<HostSummation>(
            on_card, collectives.takes_device_memory(), std::vector{share},
            [&collectives](float* values, size_t count) { collectives.sum(values, count); });
    if (via == Via::ordered) {
        const auto ordered = std::make_shared<OrderedSum>(collectives, contributions, ranks.rank(), ranks.count());
        return std::make_unique<HostSummation>(on_card, false, ordered->parts(),
                                               [ordered](float* values, size_t count) {
                                                   OrderedSum::Parts of_rank;
                                                   for (size_t part = 0; part < ordered->parts().size(); ++part)
                                                       of_rank.push_back(values + part * count);
                                                   ordered->sum(of_rank, {0, count}, values);
                                               });
    }
    if (!on_card) throw Unsupported("NCCL adds up what is on GPUs: --device gpu");
    return nccl_summation(share, ranks);
}

} // namespace hw4::bench
