// A training step on the GPU has the bytes of the CPU: every operation on odd shapes and numbers of every magnitude,
// and a training run of a few steps.
#include <gtest/gtest.h>

#include <memory>

#include "src/step/gpu/products.h"
#include "src/step/trainer.h"
#include "tests/support/need_gpu.h"
#include "tests/support/small_training.h"
#include "tests/support/step_bench.h"

namespace hw4::step {
namespace {

// Together they have rows read as four floats and one by one; full and partial tiles, chains, leaves and segments;
// sequences that do not fill a tree; rows of logits that fit in registers, in shared memory and in neither; rows of
// more segments than a block has warps; more sequences than a block has threads.
const Shape kShapes[] = {
    {1, 1, 1, 5, 1, 2},       {3, 1, 7, 257, 2, 6},    {1, 33, 33, 5, 1, 32},  {1, 100, 1000, 7, 3, 16},
    {2, 31, 1025, 13, 2, 4},  {5, 64, 40, 100, 1, 8},  {1, 3, 3000, 7, 1, 2},  {1, 3, 20, 2000, 1, 2},
    {3, 33, 129, 13, 1, 2},   {7, 45, 200, 196, 1, 4}, {6, 70, 68, 388, 2, 4}, {11, 5, 2052, 36, 1, 2},
    {2, 530, 8, 12, 1, 2},    {1, 2, 12, 11000, 1, 2}, {1, 2, 5, 11001, 1, 2}, {4, 96, 768, 1152, 2, 64},
    {1, 40, 64, 520, 1, 128}, {1, 300, 36, 404, 3, 4}, {1, 2, 4, 50300, 1, 2}, {1, 2, 3, 33001, 1, 2},
    {1100, 33, 9, 5, 1, 2},   {1, 2, 8196, 5, 1, 2},   {2, 3, 9001, 3, 1, 2},  {1, 2, 3, 20001, 1, 2},
    {1, 2, 4, 20004, 1, 2},   {1, 3, 1030, 5, 1, 2},   {70, 2, 8, 5, 1, 2}};
// More tiles than multiprocessors and more than one leaf: a block computes several leaves of several tiles.
const Shape kManyTiles[] = {{5, 700, 1100, 1500, 1, 2}, {3, 1333, 2085, 1301, 1, 2}};

void expect_same(const NamedOperation& operation, const Shape& shape, Numbers kind) {
    const std::unique_ptr<Machine> cpu = make_cpu(0);
    const std::unique_ptr<Machine> gpu = make_gpu();
    const Floats expected = operation.results(*cpu, shape, kind);
    const Floats got = operation.results(*gpu, shape, kind);
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(bits_of(expected[i]), bits_of(got[i]))
            << shape.text() << ", numbers " << static_cast<int>(kind) << ", number " << i << ": " << expected[i]
            << " and " << got[i];
}

class EachOperationOnGpu : public testing::TestWithParam<NamedOperation> {};

TEST_P(EachOperationOnGpu, HasTheBytesOfTheCpu) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Shape& shape : kShapes)
        for (const Numbers kind : {Numbers::ordinary, Numbers::spread, Numbers::zeros})
            expect_same(GetParam(), shape, kind);
}

TEST_P(EachOperationOnGpu, HasTheBytesOfTheCpuWithManyTiles) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Shape& shape : kManyTiles) expect_same(GetParam(), shape, Numbers::ordinary);
}

INSTANTIATE_TEST_SUITE_P(Step, EachOperationOnGpu, testing::ValuesIn(kStepOperations),
                         [](const auto& test) { return std::string(test.param.name); });

// Every tile size that a GPU's shared memory may allow, with leaves together and apart, without a GPU: the plan must
// cover the product and stay within its stated sizes.
TEST(StepProducts, ArePlannedForEveryGpu) {
    for (const size_t shared_bytes : {99u << 10, 163u << 10, 227u << 10})
        for (const int multiprocessors : {1, 60, 132})
            for (const int rows : {1, 512, 2048})
                for (const int leaves : {1, 4, 10}) {
                    gpu::Device device;
                    device.shared_bytes = shared_bytes;
                    device.multiprocessors = multiprocessors;
                    ProductArgs args;
                    args.rows = rows;
                    args.columns = 768;
                    args.a_step = args.b_step = args.terms = 1024 * leaves;
                    args.leaf = 1024;
                    args.leaves = leaves;
                    const ProductPlan plan = plan_product(ProductKind::linear, args, device);
                    EXPECT_EQ(args.tiles, (rows + 127) / 128 * ((768 + plan.tile_columns - 1) / plan.tile_columns));
                    EXPECT_EQ(args.units, args.whole + (args.tiles - args.whole) * leaves);
                    EXPECT_TRUE(args.whole == args.tiles || args.whole % multiprocessors == 0);
                    EXPECT_EQ(plan.blocks, std::min(args.units, multiprocessors));
                    EXPECT_TRUE(shared_bytes > (99u << 10) || plan.tile_columns == 96);
                    const int64_t tiles = args.units - args.whole + (args.whole > 0 && leaves > 1 ? plan.blocks : 0);
                    EXPECT_EQ(plan.waiting_floats, static_cast<size_t>(tiles * 128 * plan.tile_columns));
                }
}

TEST(StepOnGpu, SaysThatAStepMustBeRefused) {
    HW4_SKIP_WITHOUT_GPU();
    const Tokens tokens{1, 1, {0}, {1}};
    const std::unique_ptr<Machine> gpu = make_gpu();
    for (const float bad : {NAN, static_cast<float>(HUGE_VAL), 1e7f})
        for (size_t at = 0; at < 3; ++at) {
            Floats logits(200, 0.5f);
            logits[at] = bad;
            const Owned<float> on_gpu = gpu->floats(logits.size());
            gpu->put(on_gpu.get(), logits.data(), logits.size());
            EXPECT_FALSE(std::isfinite(gpu->cross_entropy(on_gpu.get(), tokens, 200, 1)[0])) << bad << at;
        }
}

// Weight gradients run alongside later work, which must wait before it uses their memory.
TEST(StepOnGpu, GradientsOfWeightsAreWaitedFor) {
    HW4_SKIP_WITHOUT_GPU();
    constexpr size_t kSize = 1024; // rows, inputs and outputs: takes longer than clearing
    const Floats ones(kSize * kSize, 1);
    const std::unique_ptr<Machine> gpu = make_gpu();
    const Owned<float> dy = gpu->floats(ones.size());
    const Owned<float> x = gpu->floats(ones.size());
    const Owned<float> dw = gpu->floats(ones.size());
    const Owned<float> dx = gpu->floats(ones.size());
    const auto after = [&](const auto& next, const Owned<float>& result) {
        for (const Owned<float>* memory : {&dy, &x, &dw}) gpu->put(memory->get(), ones.data(), ones.size());
        gpu->linear_weights(dy.get(), x.get(), dw.get(), 1, kSize, kSize, kSize);
        next();
        Floats got(ones.size());
        gpu->get(got.data(), result.get(), got.size());
        return got;
    };
    for (int i = 0; i < 3; ++i) { // the first run may load code in the meantime
        EXPECT_EQ(after([] {}, dw), Floats(ones.size(), kSize));
        EXPECT_EQ(after([&] { gpu->clear(dy.get(), ones.size()); }, dw), Floats(ones.size(), kSize));
        EXPECT_EQ(after([&] { gpu->clear(x.get(), ones.size()); }, dw), Floats(ones.size(), kSize));
        EXPECT_EQ(after([&] { gpu->clear(dw.get(), ones.size()); }, dw), Floats(ones.size(), 0));
        EXPECT_EQ(after([&] { gpu->add(dw.get(), x.get(), ones.size()); }, dw), Floats(ones.size(), kSize + 1));
        EXPECT_EQ(after([&] { gpu->linear_back(dw.get(), x.get(), dx.get(), kSize, kSize, kSize); }, dx),
                  Floats(ones.size(), kSize * kSize));
    }
}

// Returns the parameters, and the losses and norms in `said`.
Floats trained(Machine& machine, Configuration settings, int64_t micro_batch, std::vector<double>& said,
               int64_t steps = 5) {
    TemporaryFolder folder;
    write_file(folder / "t", small_text());
    const TokenFile text(folder / "t", 16, settings);
    Trainer trainer(machine, settings, micro_batch);
    draw_all(machine, trainer, settings.seed);
    for (int64_t t = 1; t <= steps; ++t) {
        const auto batch = [&](int64_t first, int64_t count) { return text.sequences(settings, t - 1, first, count); };
        const StepResult result = take_step(trainer, t, batch, settings.batch);
        said.insert(said.end(), {result.loss, result.norm});
    }
    Floats parameters(trainer.parameters().floats);
    machine.get(parameters.data(), trainer.weights(), parameters.size());
    return parameters;
}

Configuration tiny_settings() {
    Configuration tiny = small_settings();
    tiny.model = {64, 256, 2, 4, 256};
    tiny.batch = 4;
    tiny.context = 64;
    return tiny;
}

TEST(StepOnGpu, TrainsToTheParametersOfTheCpu) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Configuration& settings : {small_settings(), tiny_settings()}) {
        std::vector<double> said;
        const Floats expected = trained(*make_cpu(0), settings, 8, said);
        for (const int64_t micro_batch : {1, 8}) {
            std::vector<double> also_said;
            EXPECT_EQ(trained(*make_gpu(), settings, micro_batch, also_said), expected) << micro_batch;
            EXPECT_EQ(also_said, said);
        }
    }
}

// ---- Under bf16: sums in another order than the CPU's, of the same rounded factors

double root_of_squares(const Floats& numbers) {
    double sum = 0;
    for (const float x : numbers) sum += double{x} * x;
    return std::sqrt(sum);
}

// The machine under bf16; null where cuBLASLt is missing.
std::unique_ptr<Machine> make_half_gpu() {
    try {
        return make_gpu(0, kBf16);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::no_gpu) << error.what();
        return nullptr;
    }
}

#define HW4_SKIP_WITHOUT_CUBLASLT()                                                                                    \
    HW4_SKIP_WITHOUT_GPU();                                                                                            \
    if (make_half_gpu() == nullptr) GTEST_SKIP() << "cuBLASLt is missing"

// Odd widths, rows that are not aligned, one row; tiles of tensor cores, and sizes of the model small.
const Shape kHalfShapes[] = {{1, 1, 1, 5, 1, 2},        {3, 1, 7, 257, 2, 6},   {1, 33, 33, 5, 1, 32},
                             {2, 31, 1025, 13, 2, 4},   {5, 64, 40, 100, 1, 8}, {4, 96, 768, 1152, 2, 64},
                             {2, 512, 768, 3072, 2, 64}};

TEST(StepOnGpuUnderBf16, ProductsAreThoseOfTheCpu) {
    HW4_SKIP_WITHOUT_CUBLASLT();
    for (const NamedOperation& operation : kStepOperations) {
        if (std::string(operation.name).rfind("linear", 0) != 0) continue;
        for (const Shape& shape : kHalfShapes) {
            const Floats expected = operation.results(*make_cpu(0, kBf16), shape, Numbers::ordinary);
            Floats got = operation.results(*make_half_gpu(), shape, Numbers::ordinary);
            EXPECT_EQ(got, operation.results(*make_half_gpu(), shape, Numbers::ordinary)) << operation.name; // each run
            ASSERT_EQ(got.size(), expected.size());
            const double norm = root_of_squares(expected);
            const Floats exact = operation.results(*make_cpu(0), shape, Numbers::ordinary);
            Floats unlike(exact);
            for (size_t i = 0; i < got.size(); ++i) unlike[i] -= expected[i], got[i] -= expected[i];
            EXPECT_LT(root_of_squares(got), 1e-4 * norm) << operation.name << ", " << shape.text();
            EXPECT_GT(root_of_squares(unlike), 1e-3 * norm) << "rounded factors give nothing else than the exact ones";
        }
    }
}

TEST(StepOnGpuUnderBf16, AttentionIsNearTheCpus) {
    HW4_SKIP_WITHOUT_CUBLASLT();
    for (const NamedOperation& operation : kStepOperations) {
        if (std::string(operation.name) != "attend") continue;
        for (const Shape& shape : {Shape{2, 100, 1, 1, 3, 64}, Shape{1, 33, 1, 1, 2, 12}, Shape{3, 5, 1, 1, 1, 128}}) {
            const Floats expected = operation.results(*make_cpu(0, kBf16), shape, Numbers::ordinary);
            Floats got = operation.results(*make_half_gpu(), shape, Numbers::ordinary);
            EXPECT_EQ(got, operation.results(*make_half_gpu(), shape, Numbers::ordinary)); // each run
            ASSERT_EQ(got.size(), expected.size());
            for (const float x : got) ASSERT_EQ(rounded_to(Element::bf16, x), x) << shape.text();
            for (size_t i = 0; i < got.size(); ++i) got[i] -= expected[i];
            EXPECT_LT(root_of_squares(got), 2e-2 * root_of_squares(expected)) << shape.text();
        }
    }
}

TEST(StepOnGpuUnderBf16, TrainsNearTheCpuAndTheSameOnEveryRun) {
    HW4_SKIP_WITHOUT_CUBLASLT();
    for (Configuration settings : {small_settings(), tiny_settings()}) {
        settings.contract = &kBf16;
        std::vector<double> expected;
        trained(*make_cpu(0, kBf16), settings, 8, expected, 10);
        for (const int64_t micro_batch : {1, 2, 8}) {
            std::vector<double> said;
            const Floats parameters = trained(*make_half_gpu(), settings, micro_batch, said, 10);
            for (size_t i = 0; i < said.size(); i += 2) EXPECT_NEAR(said[i], expected[i], 1e-2 * expected[i]);
            std::vector<double> also_said;
            EXPECT_EQ(trained(*make_half_gpu(), settings, micro_batch, also_said, 10), parameters) << micro_batch;
            EXPECT_EQ(also_said, said);
        }
    }
}

} // namespace
} // namespace hw4::step
