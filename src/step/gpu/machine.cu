#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>

#include "src/gpu/engine.h"
#include "src/step/gpu/attention.h"
#include "src/step/gpu/half_products.h"
#include "src/step/gpu/products.h"
#include "src/step/gpu/rows.h"
#include "src/step/gpu/workspace.h"
#include "src/step/machine.h"
#include "src/step/orders.h"
#include "src/step/token_leaves.h"

namespace hw4::step {
namespace {

constexpr int kLeastArch = 80; // cp.async

// Launches count rows and places in 32-bit integers.
int counted(int64_t count) {
    if (count > std::numeric_limits<int32_t>::max())
        throw Error(ExitCode::bad_data, std::to_string(count) + " rows of a micro-batch, need at most " +
                                            std::to_string(std::numeric_limits<int32_t>::max()) +
                                            "; a smaller --micro-batch has fewer");
    return static_cast<int>(count);
}

template <class T>
Owned<T> allocate(size_t count) {
    const auto memory = std::make_shared<gpu::Scratch>(gpu::make_scratch(count * sizeof(T)));
    return {static_cast<T*>(memory->get()), [memory](T*) {}};
}

// A stream with the highest priority: its blocks start before other streams' blocks.
gpu::Stream make_first_stream() {
    int least = 0;
    int greatest = 0;
    HW4_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t stream;
    HW4_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    return gpu::Stream(stream);
}

struct Range {
    const float* begin = nullptr;
    int64_t count = 0;

    bool meets(const Range& other) const { return begin < other.begin + other.count && other.begin < begin + count; }
};

// A second stream computes the gradients of weights, on multiprocessors that the following operations leave idle. An
// operation that reads or writes such a gradient, or writes an input of it, waits for it. The second stream has its own
// workspace. So bytes do not depend on what runs at the same time.
class Gpu : public Machine {
public:
    Gpu(const gpu::Device& device, const Contract& contract)
        : card_(gpu::card_in_use()), device_(device), stream_(make_first_stream()), beside_(gpu::make_stream()),
          rows_(stream_.get()), attention_(device, contract, stream_.get()), workspace_(stream_.get()),
          beside_workspace_(beside_.get()), half_(&contract == &kBf16 ? make_half_products() : nullptr) {}

    Owned<float> floats(size_t count) override { return allocate<float>(count); }
    Owned<RowStatistics> statistics(size_t count) override { return allocate<RowStatistics>(count); }
    size_t scratch_bytes() const override { return workspace_.bytes() + beside_workspace_.bytes(); }
    bool is_on_host() const override { return false; }
    void put(float* to, const float* from, size_t count) override {
        wait_beside();
        copy(to, from, count, cudaMemcpyHostToDevice);
        wait(); // the caller may free the host's memory
    }
    void get(float* to, const float* from, size_t count) override {
        wait_beside();
        copy(to, from, count, cudaMemcpyDeviceToHost);
        wait();
    }
    void clear(float* to, size_t count) override {
        settle({to, static_cast<int64_t>(count)}, {});
        if (count > 0) HW4_CUDA(cudaMemsetAsync(to, 0, count * sizeof(float), stream_.get())); // a shard may be empty
    }

    void embed(const Tokens& tokens, const float* table, float* x, int64_t width) override {
        settle();
        auto* const on_gpu = workspace_.of<int32_t>(tokens.inputs.size());
        upload(on_gpu, tokens.inputs);
        rows_.embed(on_gpu, table, x, counted(tokens.rows()), width);
    }
    void embed_back(const Tokens& tokens, const float* dx, float* d_table, int64_t vocabulary, int64_t width) override {
        settle({d_table, vocabulary * width}, {{dx, tokens.rows() * width}});
        counted(tokens.rows());
        const TokenLeaves leaves(tokens);
        const auto leaf_floats = static_cast<size_t>(leaves.leaf_count() * width);
        const size_t integers =
            leaves.places.size() + leaves.begins.size() + leaves.joins.size() + leaves.tokens.size();
        auto* const sums = workspace_.of<float>(leaf_floats + integers); // floats first, aligned for float4
        auto* next = reinterpret_cast<int32_t*>(sums + leaf_floats);
        const auto uploaded = [&](const std::vector<int32_t>& values) {
            upload(next, values);
            next += values.size();
            return next - values.size();
        };
        const EmbeddingLeaves of = {uploaded(leaves.places), uploaded(leaves.begins), uploaded(leaves.joins),
                                    uploaded(leaves.tokens), leaves.leaf_count(),     leaves.token_count()};
        clear(d_table, static_cast<size_t>(vocabulary * width));
        rows_.embed_back(of, dx, sums, d_table, width);
    }

    void multiply(const LinearProduct& of) override {
        const Range a{of.a, of.rows() * of.terms()};
        const Range b{of.b, of.columns() * of.terms()};
        const Range out{of.out, of.rows() * of.columns()};
        if (of.kind != ProductKind::linear_weights) {
            if (of.kind == ProductKind::linear)
                settle();
            else
                settle(out, {a, b});
            return launch(of, workspace_, stream_);
        }
        if (pending_ == products_.size()) products_.emplace_back();
        WeightProduct& next = products_[pending_];
        HW4_CUDA(cudaEventRecord(ready_.get(), stream_.get()));
        HW4_CUDA(cudaStreamWaitEvent(beside_.get(), ready_.get(), 0));
        launch(of, beside_workspace_, beside_);
        HW4_CUDA(cudaEventRecord(next.done.get(), beside_.get()));
        next.dy = a;
        next.x = b;
        next.dw = out;
        ++pending_;
    }

    void norm(const float* x, const float* gain, float* y, float* factors, int64_t rows, int64_t width) override {
        settle();
        rows_.norm(x, gain, y, factors, rows, width);
    }
    void norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx, int64_t rows,
                   int64_t width) override {
        settle({dx, rows * width}, {{x, rows * width}, {gain, width}, {factors, rows}, {dy, rows * width}});
        rows_.norm_back(x, gain, factors, dy, dx, rows, width);
    }
    void norm_gain(const float* x, const float* factors, const float* dy, float* d_gain, int64_t sequences,
                   int64_t context, int64_t width) override {
        const int64_t rows = sequences * context;
        settle({d_gain, width}, {{x, rows * width}, {factors, rows}, {dy, rows * width}});
        counted(rows);
        auto* const leaves = workspace_.of<float4>(static_cast<size_t>(sequences * parts(width, 4)));
        rows_.norm_gain(x, factors, dy, leaves, d_gain, sequences, context, width);
    }

    void rotate(float* qkv, const float* table, int64_t sequences, int64_t context, const Model& model,
                bool back) override {
        settle({qkv, sequences * context * 3 * model.width}, {{table, context * model.head_width()}});
        rows_.rotate(qkv, table, counted(sequences * context), context, model.heads, model.head_width(), back);
    }
    void attention(const Attention& of) override {
        const auto tensors = [&](const Tensor& first, int64_t count) {
            return Range{static_cast<const float*>(first.data), count * of.floats()};
        };
        if (of.is_backward())
            settle(tensors(of.out[0], 3), {tensors(of.in[0], 3), tensors(of.in[3], 1), tensors(of.forward_out, 1)});
        else
            settle();
        attention_.compute(workspace_, of);
    }

    void swiglu(const float* gate_up, float* h, int64_t rows, int64_t hidden) override {
        settle();
        rows_.swiglu(gate_up, h, counted(rows), hidden);
    }
    void swiglu_back(const float* gate_up, const float* dh, float* d_gate_up, int64_t rows, int64_t hidden) override {
        settle({d_gate_up, 2 * rows * hidden}, {{gate_up, 2 * rows * hidden}, {dh, rows * hidden}});
        rows_.swiglu_back(gate_up, dh, d_gate_up, counted(rows), hidden);
    }

    std::vector<double> cross_entropy(float* logits, const Tokens& tokens, int64_t vocabulary, float share) override {
        settle();
        const auto rows = static_cast<size_t>(counted(tokens.rows()));
        auto* const on_gpu = workspace_.of<unsigned char>(rows * (sizeof(double) + sizeof(int32_t)));
        auto* const losses = reinterpret_cast<double*>(on_gpu);
        auto* const targets = reinterpret_cast<int32_t*>(losses + rows);
        upload(targets, tokens.targets);
        rows_.cross_entropy(logits, targets, losses, tokens.rows(), vocabulary, share);
        std::vector<double> of_rows(rows);
        copy(of_rows.data(), losses, rows, cudaMemcpyDeviceToHost);
        wait();
        return tokens.sums_of(of_rows);
    }

    void add(float* a, const float* b, size_t count) override {
        settle();
        rows_.add(a, b, static_cast<int64_t>(count));
    }
    void squares(const float* x, size_t count, float* sums) override {
        settle();
        const size_t segments = count / kSegment;
        auto* const on_gpu = workspace_.of<float>(segments);
        rows_.squares(x, static_cast<int64_t>(segments), on_gpu);
        get(sums, on_gpu, segments);
    }
    void adamw(float* p, const float* g, float* m, float* v, size_t count, const Adam& step) override {
        settle();
        rows_.adamw(p, g, m, v, static_cast<int64_t>(count), step);
    }

    void mark() override {
        settle(); // operations between two marks are timed completely, and without others
        if (marked_ == marks_.size()) marks_.push_back(gpu::make_event());
        HW4_CUDA(cudaEventRecord(marks_[marked_++].get(), stream_.get()));
    }
    std::vector<double> laps() override {
        settle();
        wait();
        std::vector<double> seconds;
        for (size_t i = 1; i < marked_; ++i) {
            float milliseconds = 0;
            HW4_CUDA(cudaEventElapsedTime(&milliseconds, marks_[i - 1].get(), marks_[i].get()));
            seconds.push_back(milliseconds * 1e-3);
        }
        marked_ = 0;
        return seconds;
    }
    void* stream() override {
        settle();
        return stream_.get();
    }

private:
    // A gradient of weights in the stream beside_: dw = dy^T x.
    struct WeightProduct {
        Range dy, x, dw;
        gpu::Event done = gpu::make_event(cudaEventDisableTiming);
    };

    // stream_ waits for the last product that must not run beside its next operation, and so for all earlier ones.
    void settle(const Range& written, std::initializer_list<Range> read) {
        for (size_t i = pending_; i > 0; --i) {
            const WeightProduct& of = products_[i - 1];
            bool meets = written.meets(of.dy) || written.meets(of.x) || written.meets(of.dw);
            for (const Range& range : read) meets = meets || range.meets(of.dw);
            if (meets) return settle_first(i);
        }
    }
    void settle() { settle_first(pending_); }
    void settle_first(size_t count) {
        if (count == 0) return;
        HW4_CUDA(cudaStreamWaitEvent(stream_.get(), products_[count - 1].done.get(), 0));
        const auto first = products_.begin();
        std::rotate(first, first + static_cast<std::ptrdiff_t>(count), first + static_cast<std::ptrdiff_t>(pending_));
        pending_ -= count;
    }
    // For get and put. A thread may call them while another starts operations: they do not touch products_, and set the
    // thread's GPU, which is the first one by default.
    void wait_beside() const {
        if (card_ != 0) HW4_CUDA(cudaSetDevice(card_));
        HW4_CUDA(cudaStreamSynchronize(beside_.get()));
    }
    void wait() const { HW4_CUDA(cudaStreamSynchronize(stream_.get())); }

    template <class T>
    void copy(T* to, const T* from, size_t count, cudaMemcpyKind kind) const {
        HW4_CUDA(cudaMemcpyAsync(to, from, count * sizeof(T), kind, stream_.get()));
    }
    // The host's memory is not pinned: when this returns, CUDA has copied it, and the caller may free it.
    void upload(int32_t* to, const std::vector<int32_t>& values) const {
        copy(to, values.data(), values.size(), cudaMemcpyHostToDevice);
    }

    void launch(const LinearProduct& of, Workspace& workspace, const gpu::Stream& stream) {
        constexpr decltype(&launch_linear) kLaunches[] = {launch_linear, launch_linear_back, launch_linear_weights};
        const bool tree = of.kind == ProductKind::linear_weights;
        const int64_t leaf = tree ? of.context : kLeaf;
        ProductArgs args = {.a = of.a,
                            .b = of.b,
                            .residual = of.residual,
                            .out = of.out,
                            .rows = counted(of.rows()),
                            .columns = counted(of.columns()),
                            .a_step = counted(of.a_along() ? of.terms() : of.rows()),
                            .b_step = counted(of.b_along() ? of.terms() : of.columns()),
                            .terms = counted(of.terms()),
                            .leaf = counted(leaf),
                            .leaves = counted(parts(of.terms(), leaf)),
                            .tree = tree};
        if (half_) return half_->multiply(of.kind, args, workspace, stream.get());
        const ProductPlan plan = plan_product(of.kind, args, device_);
        args.waiting = workspace.of<float>(plan.waiting_floats);
        kLaunches[static_cast<size_t>(of.kind)](args, plan, stream.get());
    }

    const int card_;
    const gpu::Device device_;
    const gpu::Stream stream_;
    const gpu::Stream beside_;
    const RowKernels rows_;
    GpuAttention attention_;
    Workspace workspace_;
    Workspace beside_workspace_;
    const std::unique_ptr<HalfProducts> half_;                         // null under f32
    const gpu::Event ready_ = gpu::make_event(cudaEventDisableTiming); // the next product's inputs are complete
    std::vector<WeightProduct> products_; // in order: the pending ones, then unused ones for reuse
    size_t pending_ = 0;
    std::vector<gpu::Event> marks_; // reused
    size_t marked_ = 0;
};

} // namespace

std::unique_ptr<Machine> make_gpu(int card, const Contract& contract) {
    const gpu::Unusable unusable = gpu::unusable({}, card);
    if (!unusable.reason.empty()) throw Error(unusable.code, "no usable GPU: " + unusable.reason);
    const gpu::Device device = gpu::current_device();
    if (device.arch < kLeastArch || device.code_arch < kLeastArch)
        throw Error(ExitCode::no_gpu, "no usable GPU: a training step needs compute capability 8.0 and code for it, " +
                                          gpu::device_name() + " has " + std::to_string(device.arch / 10) + "." +
                                          std::to_string(device.arch % 10) + " and this build code for " +
                                          std::to_string(device.code_arch / 10) + "." +
                                          std::to_string(device.code_arch % 10));
    return std::make_unique<Gpu>(device, contract);
}

} // namespace hw4::step
