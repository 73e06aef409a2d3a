#include "src/bench/float_memory.h"

#include <algorithm>

#include "src/cpu/aligned_memory.h"

namespace hw4::bench {
namespace {

class HostFloats : public FloatMemory {
public:
    explicit HostFloats(size_t count) : memory_(cpu::allocate_aligned(count)) {}

    float* data() const override { return memory_.get(); }
    bool on_card() const override { return false; }
    void put(size_t first, const float* from, size_t count) override { std::copy_n(from, count, data() + first); }
    void get(size_t first, size_t count, float* to) const override { std::copy_n(data() + first, count, to); }

private:
    cpu::AlignedFloats memory_;
};

} // namespace

std::unique_ptr<FloatMemory> host_floats(size_t count) { return std::make_unique<HostFloats>(count); }

} // namespace hw4::bench
