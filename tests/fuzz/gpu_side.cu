// Runs every kernel of the table, in memory that is reused for all cases: one copy in, all kernels, one copy out.
#include <algorithm>

#include "src/base/float_bits.h"
#include "src/gpu/device/check.h"
#include "src/gpu/device/memory.h"
#include "src/gpu/kernels.h"
#include "tests/fuzz/side.h"

namespace hw4::fuzz {
namespace {

using namespace hw4::gpu;

class GrowingMemory {
public:
    void* of(size_t bytes) {
        if (bytes > bytes_) {
            memory_ = Scratch(); // free the old memory first, never hold both
            bytes_ = 0;
            memory_ = make_scratch(bytes);
            bytes_ = bytes;
        }
        return memory_.get();
    }

private:
    Scratch memory_;
    size_t bytes_ = 0;
};

struct Attempt {
    std::string name;
    const Kernel* kernel;
    Device device; // the device that the kernels are planned for
    size_t scratch_bytes;
};

class GpuSide : public Side {
public:
    GpuSide() : card_(current_device()), stream_(make_stream()) {}

    void answer(const DrawnCase& test, Random& random, const std::function<void(const Answer&)>& take) override {
        const std::vector<Attempt> attempts = attempts_at(test.problem);
        if (attempts.empty()) return; // too wide, or an operation without kernels
        const auto out_rows = static_cast<size_t>(test.problem.output_rows());
        const size_t in_stride = draw_stride(test.problem.dim, random);
        const size_t out_stride = draw_stride(test.problem.dim, random);
        const size_t out_floats = (out_rows * out_stride + 3) / 4 * 4; // each output begins at a multiple of 16 bytes
        const std::vector<int64_t> cuts = draw_cuts(test.problem, random);

        auto* in = static_cast<float*>(in_.of(copy_in_bytes(test, in_stride)));
        auto* out = static_cast<float*>(out_.of(attempts.size() * out_floats * sizeof(float)));
        HW4_CUDA(
            cudaMemcpyAsync(in, host_.data(), host_.size() * sizeof(float), cudaMemcpyHostToDevice, stream_.get()));
        HW4_CUDA(cudaMemsetAsync(out, 0xff, attempts.size() * out_floats * sizeof(float), stream_.get()));
        for (size_t i = 0; i < attempts.size(); ++i)
            launch(attempts[i], test.problem, in, in_stride, out + i * out_floats, out_stride, cuts);
        host_.resize(attempts.size() * out_floats);
        HW4_CUDA(
            cudaMemcpyAsync(host_.data(), out, host_.size() * sizeof(float), cudaMemcpyDeviceToHost, stream_.get()));
        HW4_CUDA(cudaStreamSynchronize(stream_.get()));

        const std::string how = "rows " + std::to_string(in_stride) + " and " + std::to_string(out_stride) +
                                " floats apart, " + std::to_string(cuts.size() - 1) + " slices";
        for (size_t i = 0; i < attempts.size(); ++i) {
            const float* result = host_.data() + i * out_floats;
            const bool clean = keeps_padding(result, out_rows, out_stride, test.problem.dim);
            take({attempts[i].name, attempts[i].kernel->under, how, result, out_stride,
                  clean ? "" : "wrote beside its output"});
        }
    }

private:
    // All kernels of the table; where more scratch memory makes a launch faster, also with some and with all of it;
    // kernels that divide their work also as on GPUs so small that these problems give every block a lot of it.
    std::vector<Attempt> attempts_at(const Problem& problem) const {
        std::vector<Attempt> attempts;
        const auto attempt = [&](const std::string& name, const Kernel& kernel, const Device& device) {
            const Plan plan = plan_of(kernel, problem, device);
            if (!plan.why_not.empty()) return;
            attempts.push_back({name, &kernel, device, plan.scratch_bytes});
            if (plan.most_scratch <= plan.scratch_bytes) return;
            const size_t more = plan.most_scratch - plan.scratch_bytes;
            attempts.push_back({name + "/some", &kernel, device, plan.scratch_bytes + more / 3});
            attempts.push_back({name + "/all", &kernel, device, plan.most_scratch});
        };
        for (const Kernel& kernel : hw4::gpu::kernels())
            if (kernel.under->compared == Compared::bytes) attempt(kernel.name, kernel, card_);
        for (const int multiprocessors : {1, 2, 5}) {
            Device small = card_;
            small.multiprocessors = multiprocessors;
            for (const char* name : {"drawn_tiles", "wgmma_shares", "kept_pairs"})
                attempt(std::string(name) + "/" + std::to_string(multiprocessors), *find_kernel(name), small);
        }
        return attempts;
    }

    // Packed, padded to 512 bytes, or any other stride that kernels must take: whole float4 where the columns are.
    static size_t draw_stride(int64_t dim, Random& random) {
        switch (random.within(0, 2)) {
        case 0: return static_cast<size_t>(dim);
        case 1: return static_cast<size_t>((dim + 127) / 128 * 128);
        default: return static_cast<size_t>(dim % 4 == 0 ? dim + 4 * random.within(0, 9) : dim + random.within(0, 9));
        }
    }

    // Where the query rows of a unit are cut, both ends included; uncut where the output has rows of keys, which are
    // sums over all query rows.
    static std::vector<int64_t> draw_cuts(const Problem& problem, Random& random) {
        std::vector<int64_t> cuts = {0};
        const bool sliced = random.one_in(2) && !gives_rows_of_keys(*problem.operation);
        for (int64_t at = kQueryStep; sliced && at < problem.queries; at += kQueryStep)
            if (!random.one_in(3)) cuts.push_back(at);
        cuts.push_back(problem.queries);
        return cuts;
    }

    // Writes the input as it will lie on the GPU, with poison between the rows; returns its size.
    size_t copy_in_bytes(const DrawnCase& test, size_t stride) {
        const auto dim = static_cast<size_t>(test.problem.dim);
        const auto rows = static_cast<size_t>(test.problem.input_rows());
        host_.assign(rows * stride, float_of(kPoison));
        for (size_t row = 0; row < rows; ++row)
            std::copy_n(test.qkv.data() + row * dim, dim, host_.data() + row * stride);
        return host_.size() * sizeof(float);
    }

    // Launches the last slice first: nothing may depend on their order.
    void launch(const Attempt& attempt, const Problem& problem, const float* in, size_t in_stride, float* out,
                size_t out_stride, const std::vector<int64_t>& cuts) {
        void* scratch = attempt.scratch_bytes > 0 ? scratch_.of(attempt.scratch_bytes) : nullptr;
        if (scratch != nullptr) HW4_CUDA(cudaMemsetAsync(scratch, 0xff, attempt.scratch_bytes, stream_.get()));
        Launch launch =
            launch_of(problem, attempt.device, in, in_stride, out, out_stride, scratch, attempt.scratch_bytes);
        for (size_t slice = cuts.size() - 1; slice-- > 0;) {
            launch.first_query = cuts[slice];
            launch.end_query = cuts[slice + 1];
            attempt.kernel->launch(launch, stream_.get());
        }
    }

    static bool keeps_padding(const float* out, size_t rows, size_t stride, int64_t dim) {
        for (size_t row = 0; row < rows; ++row)
            for (size_t x = static_cast<size_t>(dim); x < stride; ++x)
                if (bits_of(out[row * stride + x]) != kPoison) return false;
        return true;
    }

    const Device card_;
    const Stream stream_;
    GrowingMemory in_;
    GrowingMemory out_;
    GrowingMemory scratch_;
    std::vector<float> host_;
};

} // namespace

std::unique_ptr<Side> make_gpu_side() { return std::make_unique<GpuSide>(); }

} // namespace hw4::fuzz
