#include <algorithm>
#include <cstring>

#include "src/contracts/f32/forward.h"
#include "tests/fuzz/side.h"
#include "tests/support/compute_batches.h"

namespace hw4::fuzz {
namespace {

// Floats with poison on both sides, at any offset within a cache line.
class Guarded {
public:
    float* make(size_t count, size_t offset) {
        memory_.assign(count + 2 * kGuard + offset, float_of(kPoison));
        start_ = memory_.data() + kGuard + offset;
        end_ = start_ + count;
        return start_;
    }

    bool intact() const {
        const auto poison = [](float x) { return bits_of(x) == kPoison; };
        return std::all_of<const float*>(memory_.data(), start_, poison) &&
               std::all_of<const float*>(end_, memory_.data() + memory_.size(), poison);
    }

private:
    static constexpr size_t kGuard = 64;
    std::vector<float> memory_;
    float* start_ = nullptr;
    float* end_ = nullptr;
};

class CpuSide : public Side {
public:
    void answer(const DrawnCase& test, Random& random, const std::function<void(const Answer&)>& take) override {
        for (const cpu::Kernel& kernel : cpu::kernels()) {
            if (!kernel.needs.processor() || kernel.does != test.problem.operation) continue;
            if (kernel.under->compared != Compared::bytes || !why_not(*kernel.under, test.problem).empty()) continue;
            float* in = in_.make(test.qkv.size(), static_cast<size_t>(random.within(0, 15)));
            float* out = out_.make(test.output_floats(), static_cast<size_t>(random.within(0, 15)));
            std::copy(test.qkv.begin(), test.qkv.end(), in);
            const bool by_blocks = kernel.does == &kForward && random.one_in(2);
            const std::string how = by_blocks ? in_blocks(*kernel.blocks, test.problem, random, in, out)
                                              : whole(kernel, test.problem, random, in, out);
            const bool whole_input = std::memcmp(in, test.qkv.data(), test.qkv.size() * sizeof(float)) == 0;
            const char* fault = !out_.intact()                  ? "wrote beside its output"
                                : !in_.intact() || !whole_input ? "wrote to its input"
                                                                : "";
            take({kernel.name, kernel.under, how, out, static_cast<size_t>(test.problem.dim), fault});
        }
    }

private:
    static std::string whole(const cpu::Kernel& kernel, const Problem& problem, Random& random, const float* in,
                             float* out) {
        const int threads = random.one_in(8) ? static_cast<int>(random.within(2, 4)) : 1;
        cpu::compute_batches(kernel, problem, in, out, threads);
        return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
    }

    // Returns this many floats of poison, aligned to a cache line.
    static float* poisoned(std::vector<float>& memory, size_t floats) {
        memory.assign(floats + kLineFloats, float_of(kPoison));
        const size_t misplaced = reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float) % kLineFloats;
        return memory.data() + (kLineFloats - misplaced) % kLineFloats;
    }

    // Prepares a head's tiles from last to first, several at a time; null for a kernel that prepares nothing.
    const void* prepare(const cpu::BlockKernel& kernel, const Problem& problem, Random& random, const float* k,
                        const float* v) {
        if (kernel.prepare == nullptr) return nullptr;
        const size_t bytes = kernel.prepared_bytes(problem.keys, problem.dim);
        void* prepared = poisoned(prepared_, (bytes + sizeof(float) - 1) / sizeof(float));
        for (int64_t end = kernel.tiles_of(problem.keys); end > 0;) {
            const int64_t first = end - random.within(1, end);
            kernel.prepare({k, v, problem.keys, problem.dim, first, end}, prepared);
            end = first;
        }
        return prepared;
    }

    // Cuts the rows of each unit at random places; the workspace is full of poison.
    std::string in_blocks(const cpu::BlockKernel& kernel, const Problem& problem, Random& random, const float* in,
                          float* out) {
        const int64_t most_rows = random.within(1, kernel.block_rows);
        float* workspace = poisoned(workspace_, kernel.workspace_floats(most_rows, problem.dim));
        const cpu::Launch launch = cpu::launch_of(problem, in, out, nullptr, 1);
        for (int64_t unit = 0; unit < problem.units(); ++unit) {
            const int64_t batch = unit / problem.heads;
            const int64_t head = unit % problem.heads;
            const int64_t kv_head = head / (problem.heads / problem.kv_heads);
            const auto* q = static_cast<const float*>(launch.in[0].at(batch, head));
            const auto* k = static_cast<const float*>(launch.in[1].at(batch, kv_head));
            const auto* v = static_cast<const float*>(launch.in[2].at(batch, kv_head));
            auto* o = static_cast<float*>(launch.out[0].at(batch, head));
            const void* prepared = prepare(kernel, problem, random, k, v);
            // Kernels never get rows that see no key.
            const int64_t blind = blind_queries(problem.mask, problem.queries, problem.keys);
            std::fill(o, o + blind * problem.dim, 0.0f);
            for (int64_t row = blind; row < problem.queries; row += most_rows) {
                const int64_t rows = std::min(most_rows, problem.queries - row);
                kernel.attend({q + row * problem.dim, k, v, o + row * problem.dim, rows, problem.keys, problem.dim,
                               scale_for(problem.dim), prepared,
                               visible_keys(problem.mask, problem.queries, problem.keys, row), nullptr,
                               Element::float32, window_or_none(problem.window)},
                              workspace);
            }
        }
        return "blocks of " + std::to_string(most_rows) + " rows";
    }

    static constexpr size_t kLineFloats = 16;
    Guarded in_;
    Guarded out_;
    std::vector<float> workspace_;
    std::vector<float> prepared_;
};

} // namespace

std::unique_ptr<Side> make_cpu_side() { return std::make_unique<CpuSide>(); }

} // namespace hw4::fuzz
