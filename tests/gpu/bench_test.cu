// Bench cells measured on the GPU, and the sums of `bench accumulate`.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/bench/accumulate.h"
#include "src/bench/measure.h"
#include "src/bench/measured_machine.h"
#include "src/gpu/kernels.h"
#include "tests/support/need_gpu.h"
#include "tests/support/small_training.h"
#include "tests/support/step_bench.h"
#include "tests/support/subject.h"

namespace hw4::bench {
namespace {

// The peak of the memory in use. All of it must be freed at the end.
size_t peak_of(const MemoryTrack& track) {
    size_t in_use = 0;
    size_t peak = 0;
    for (const MemoryEvent& event : track.events) {
        if (event.kind == MemoryEvent::Kind::taken) in_use += event.allocation.bytes;
        if (event.kind == MemoryEvent::Kind::given_back) in_use -= event.allocation.bytes;
        peak = std::max(peak, in_use);
    }
    EXPECT_EQ(in_use, 0);
    return peak;
}

class BenchOnGpu : public ::testing::Test {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }

    static Cell cell_of(const std::string& impl, bool causal) {
        Cell cell;
        cell.impl = impl;
        cell.batch_size = 2;
        cell.seq_len = 130;
        cell.num_heads = 3;
        cell.emb_dim = 3 * 64;
        cell.causal = causal;
        cell.device = "gpu";
        cell.rules.warmup = 0;
        cell.rules.repeats = 2;
        return cell;
    }

    Row measured(const Cell& cell, Workbench& workbench, std::vector<MemoryTrack>* tracks = nullptr) {
        return measure(cell, workbench, kept_, tracks);
    }

private:
    KeptData kept_; // shared by all cells of a test, as in a sweep
};

TEST_F(BenchOnGpu, ContractsGiveTheirBytes) {
    const auto workbench = gpu_workbench();
    for (const Contract* contract : contracts_by_bytes())
        for (const bool causal : {false, true}) {
            if (gpu::kernels_of(*contract).empty()) continue;
            const Row row = measured(cell_of(contract->name, causal), *workbench);
            EXPECT_EQ(row.of(Pass::forward).status, Status::ok) << row.reason();
            EXPECT_EQ(row.of(Pass::forward).as_reference, true) << contract->name;
            for (const Pass pass : kPasses) EXPECT_NE(row.of(pass).status, Status::failed) << row.of(pass).reason;
        }
}

// Operands have the type itself; rows of 37 columns are converted to rows that the kernels take.
TEST_F(BenchOnGpu, HalfPrecisionIsRight) {
    const auto workbench = gpu_workbench();
    for (const Contract* contract : {&kBf16, &kFp16})
        for (const int64_t dim : {64, 37})
            for (const bool causal : {false, true}) {
                Cell cell = cell_of(contract->name, causal);
                cell.emb_dim = 3 * dim;
                cell.element = contract->element;
                const Row row = measured(cell, *workbench);
                const Measured& forward = row.of(Pass::forward);
                if (forward.status == Status::unsupported) GTEST_SKIP() << forward.reason;
                EXPECT_EQ(forward.status, Status::ok) << forward.reason;
                EXPECT_EQ(forward.as_reference, std::nullopt) << "its bytes are its own";
                const double bound = contract == &kBf16 ? 6e-2 : 1e-2;
                EXPECT_LT(forward.error.largest, bound) << contract->name << " " << dim;
                constexpr size_t kMatrix = 2 * 3 * 130 * 64 * 2;
                if (dim == 64) EXPECT_EQ(forward.peak_bytes, 4 * kMatrix + sizeof(unsigned));
                const Measured& backward = row.of(Pass::backward);
                EXPECT_EQ(backward.status, Status::ok) << backward.reason;
                EXPECT_LT(backward.error.largest, bound) << contract->name << " " << dim;
            }
}

TEST_F(BenchOnGpu, ScratchMemoryIsWithinItsBudget) {
    const auto workbench = gpu_workbench();
    Cell cell = cell_of("f32", false);
    const size_t most = measured(cell, *workbench).of(Pass::backward).scratch_bytes;
    cell.scratch = 0;
    const Measured least = measured(cell, *workbench).of(Pass::backward);
    EXPECT_EQ(least.as_reference, true) << least.reason;
    EXPECT_LE(least.scratch_bytes, most);
}

TEST_F(BenchOnGpu, NaiveIsRightInEveryType) {
    const auto workbench = gpu_workbench();
    for (const Element element : kElements)
        for (const bool causal : {false, true}) {
            Cell cell = cell_of("naive", causal);
            cell.element = element;
            const Row row = measured(cell, *workbench);
            if (row.status() == Status::unsupported) GTEST_SKIP() << row.reason();
            const double bound = element == Element::float32 ? 1e-5 : element == Element::fp16 ? 1e-2 : 6e-2;
            for (const Pass pass : kPasses) {
                const Measured& one = row.of(pass);
                EXPECT_EQ(one.status, Status::ok) << one.reason;
                EXPECT_LT(one.error.largest, bound) << name_of(element) << " " << name_of(pass);
            }
        }
}

TEST_F(BenchOnGpu, CountsBytesAndRefusesWhatIsBeyondTheLimit) {
    const auto workbench = gpu_workbench();
    Cell cell = cell_of("naive", false);
    cell.element = Element::fp16;
    const Row row = measured(cell, *workbench);
    if (row.status() == Status::unsupported) GTEST_SKIP() << row.reason();
    const size_t matrix = 2 * 130 * 192 * 2;
    const size_t scores = 2 * 3 * 130 * 130 * 2;
    EXPECT_EQ(row.of(Pass::forward).peak_bytes, 4 * matrix + scores);
    EXPECT_EQ(row.of(Pass::backward).peak_bytes, 8 * matrix + 2 * scores);
    cell.memory_limit = static_cast<int64_t>(4 * matrix + scores - 1);
    EXPECT_EQ(measured(cell, *workbench).of(Pass::forward).wanted_bytes, scores);
    EXPECT_EQ(measured(cell, *workbench).of(Pass::forward).status, Status::oom);
}

TEST_F(BenchOnGpu, OneRunTakesWhatTheRowSays) {
    const auto workbench = gpu_workbench();
    for (const char* impl : {"naive", "f32"}) {
        std::vector<MemoryTrack> tracks;
        const Row row = measured(cell_of(impl, false), *workbench, &tracks);
        if (row.status() == Status::unsupported) continue;
        ASSERT_EQ(tracks.size(), kPassCount) << row.reason();
        for (const Pass pass : kPasses)
            EXPECT_EQ(peak_of(tracks[static_cast<size_t>(pass)]), row.of(pass).peak_bytes)
                << impl << " " << name_of(pass);
    }
}

TEST_F(BenchOnGpu, NaiveAttentionGivesAStepNearlyTheSameGradient) {
    std::unique_ptr<NaiveAttention> naive;
    try {
        naive = gpu_naive();
    } catch (const Unsupported& error) {
        GTEST_SKIP() << error.reason;
    }
    const std::vector<float> expected = small_gradient(*step::make_cpu(2));
    MeasuredMachine machine(step::make_gpu(), size_t{1} << 30, std::move(naive), small_settings().context);
    expect_nearly(expected, small_gradient(machine));
}

TEST_F(BenchOnGpu, CublasComputesTheProductsOfAStepWhichKeepsItsBytes) {
    using Kind = step::ProductKind;
    const std::unique_ptr<step::Machine> plain = step::make_gpu();
    std::unique_ptr<Yardstick> yardstick;
    try {
        yardstick = gpu_yardstick(plain->stream());
    } catch (const Unsupported& error) {
        GTEST_SKIP() << error.reason;
    }
    step::Bench b(*plain, {4, 7, 12, 20, 3, 4}, step::Numbers::ordinary);
    const float* const x = b.in(b.x, 1);
    const float* const w = b.in(b.w, 2);
    const float* const dy = b.in(b.y, 3);
    const step::LinearProduct products[] = {{Kind::linear, x, w, b.out(b.y), b.rows(), b.inputs, b.outputs},
                                            {Kind::linear_back, dy, w, b.out(b.x), b.rows(), b.inputs, b.outputs},
                                            {Kind::linear_weights, dy, x, b.out(b.w), b.rows(), b.inputs, b.outputs}};
    for (const step::LinearProduct& product : products) yardstick->multiply(product);
    const std::vector<float> by_cublas = b.results();
    plain->linear(x, w, nullptr, products[0].out, b.rows(), b.inputs, b.outputs);
    plain->linear_back(dy, w, products[1].out, b.rows(), b.inputs, b.outputs);
    plain->linear_weights(dy, x, products[2].out, b.sequences, b.context, b.inputs, b.outputs);
    expect_nearly(b.results(), by_cublas);

    MeasuredMachine machine(step::make_gpu(), size_t{1} << 30);
    machine.compare(gpu_yardstick(machine.stream()));
    machine.begin_step(true);
    EXPECT_EQ(small_gradient(machine), small_gradient(*plain));
}

TEST_F(BenchOnGpu, SumsAreThoseOfTheEmulation) { EXPECT_EQ(gpu_sums({1000, 0.01f}), cpu_sums({1000, 0.01f})); }

} // namespace
} // namespace hw4::bench
