// A measured training step: attention in the naive form, and the memory in use.
#include <gtest/gtest.h>

#include "src/bench/measured_machine.h"
#include "src/bench/workbench.h"
#include "tests/support/small_training.h"

namespace hw4::bench {
namespace {

constexpr size_t kPlenty = size_t{1} << 30;

TEST(BenchStep, NaiveAttentionGivesNearlyTheSameGradient) {
    const std::vector<float> expected = small_gradient(*step::make_cpu(2));
    for (const int threads : {1, 3}) {
        MeasuredMachine machine(step::make_cpu(2), kPlenty, cpu_naive(threads), small_settings().context);
        expect_nearly(expected, small_gradient(machine));
    }
}

TEST(BenchStep, NaiveOnTheCpuTakesFloatsAlone) {
    step::Attention of{Problem(1, 2, 3)};
    of.in[0].element = Element::bf16;
    EXPECT_THROW(cpu_naive(1)->compute(of, nullptr, nullptr), Unsupported);
}

// Overwrites results with numbers that no operation of a step gives.
class Spoiler : public Yardstick {
public:
    void multiply(const step::LinearProduct& of) override { std::fill_n(of.out, of.rows() * of.columns(), 1e30f); }
    void copy(float* to, const float* from, size_t count) override { std::copy_n(from, count, to); }
    void squares(const float*, size_t) override {}
    void cross_entropy(float* logits, int64_t, int64_t, float) override { *logits = 1e30f; }
};

TEST(BenchStep, OperationsAreListedAndTheStepKeepsItsBytes) {
    MeasuredMachine machine(step::make_cpu(2), kPlenty);
    const std::vector<float> expected = small_gradient(*step::make_cpu(2));
    machine.compare(std::make_unique<Spoiler>());
    machine.begin_step(true);
    EXPECT_EQ(small_gradient(machine), expected);
    machine.end_step();
    const step::Owned<float> to = machine.floats(step::kSegment);
    const step::Owned<float> from = machine.floats(step::kSegment);
    std::fill_n(from.get(), step::kSegment, 1.0f);
    const std::vector<MeasuredOperation> all = machine.compared(to.get(), from.get(), step::kSegment);
    const std::string table = operations_table(all, small_settings().model);
    // 12 wide, 20 hidden, 2 layers, 11 words; a micro-batch of 4 sequences of 7 tokens, and one of 1.
    for (const char* row :
         {" qkv linear              28 x 36 x 12      2 ", "head linear_back               7 x 12 x 11      1 ",
          "gate_up linear_weights              40 x 12 x 28      2 ", " swiglu                  0.007 MB      2 "})
        EXPECT_NE(table.find(row), std::string::npos) << row << table;
}

// "+4 parameters @0": 4 bytes were taken for parameters at second 0.
std::vector<std::string> words_of(const MemoryInUse& memory) {
    std::vector<std::string> words;
    for (const MemoryEvent& event : memory.events)
        words.push_back((event.kind == MemoryEvent::Kind::taken ? "+" : "-") + std::to_string(event.allocation.bytes) +
                        " " + event.allocation.purpose + " @" + std::to_string(static_cast<int>(event.seconds)));
    return words;
}

// Three operations forward and back: x is kept for backward, y only for the next operation, and its place taken again;
// the gradients of two parameters are in one allocation.
TEST(MemoryInUse, ATensorLivesFromItsWriteToItsLastRead) {
    using Operation = StepOperation;
    using Phase = StepPhase;
    constexpr uintptr_t kW = 1000, kX = 2000, kY = 3000, kG = 4000, kM = 5000;
    const std::map<uintptr_t, size_t> held = {{kW, 40}, {kX, 100}, {kY, 60}, {kG, 40}, {kM, 8}, {9000, 7}};
    const auto use = [](uintptr_t at, size_t bytes, bool is_written, size_t lap, Operation operation, Phase phase) {
        return Use{at, bytes, is_written, lap, operation, phase};
    };
    const std::vector<Use> uses = {
        use(kW, 30, false, 0, Operation::products, Phase::forward),
        use(kX, 100, true, 0, Operation::products, Phase::forward),
        use(kX, 100, false, 1, Operation::norms, Phase::forward),
        use(kY, 60, true, 1, Operation::norms, Phase::forward),
        use(kY, 60, false, 2, Operation::loss, Phase::forward),
        use(kX, 100, false, 3, Operation::products, Phase::backward),
        use(kY, 60, true, 3, Operation::products, Phase::backward),
        use(kG + 30, 10, true, 3, Operation::products, Phase::backward),
        use(kG, 30, true, 4, Operation::norms, Phase::backward),
        use(kG, 40, false, 5, Operation::optimizer, Phase::optimizer),
        use(kM, 8, false, 5, Operation::optimizer, Phase::optimizer),
        use(kW, 40, false, 5, Operation::optimizer, Phase::optimizer),
    };
    const std::vector<double> seconds = {1, 1, 1, 1, 1, 1};
    const MemoryInUse step = memory_in_use(held, uses, seconds, 5, false);
    EXPECT_EQ(words_of(step),
              (std::vector<std::string>{"+5 scratch of operations @0", "+40 parameters @0", "+100 products, forward @0",
                                        "+8 m and v @0", "+60 norms, forward @1", "-60 norms, forward @3",
                                        "+60 products, backward @3", "+10 products, backward @3",
                                        "-100 products, forward @4", "-60 products, backward @4",
                                        "+30 norms, backward @4", "-5 scratch of operations @6", "-40 parameters @6",
                                        "-30 norms, backward @6", "-10 products, backward @6", "-8 m and v @6"}));
    EXPECT_EQ(step.peak, 5u + 40 + 100 + 8 + 60 + 10);
    const MemoryInUse forward = memory_in_use(held, uses, seconds, 5, true);
    EXPECT_EQ(words_of(forward),
              (std::vector<std::string>{"+5 scratch of operations @0", "+40 parameters @0", "+100 products, forward @0",
                                        "+60 norms, forward @1", "-100 products, forward @2",
                                        "-5 scratch of operations @3", "-40 parameters @3", "-60 norms, forward @3"}));
    EXPECT_EQ(forward.peak, 5u + 40 + 100 + 60);
}

} // namespace
} // namespace hw4::bench
