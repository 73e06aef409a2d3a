// How samples are taken, their statistics, and rows.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include "src/bench/allreduce.h"
#include "src/bench/baseline.h"
#include "src/bench/measure.h"
#include "src/bench/measured_machine.h"
#include "src/bench/memory_count.h"
#include "src/bench/row_json.h"
#include "src/bench/sampling.h"
#include "src/bench/workbench.h"
#include "src/io/case_values.h"
#include "src/ranks/ranks.h"
#include "tests/support/small_training.h"

namespace hw4::bench {
namespace {

TEST(Sampling, ShortLaunchesAreManyInASample) {
    EXPECT_EQ(launches_for(0.039e-3), 257);
    EXPECT_EQ(launches_for(0.004), 3);
    EXPECT_EQ(launches_for(1e-9), kMostLaunches);
    EXPECT_EQ(launches_for(0.0), kMostLaunches); // too short for the clock
    EXPECT_EQ(launches_for(kSampleSeconds), 1);
    EXPECT_EQ(launches_for(0.85), 1);
}

TEST(SampleStatistics, FewNumbersForMany) {
    const std::vector<double> values = {5, 1, 3, 2, 4};
    EXPECT_EQ(median(values), 3);
    EXPECT_EQ(quantile(values, 0), 1);
    EXPECT_EQ(quantile(values, 1), 5);
    EXPECT_DOUBLE_EQ(quantile(values, 0.2), 1.8);
    EXPECT_EQ(mean(values), 3);
    EXPECT_DOUBLE_EQ(deviation(values), std::sqrt(2.5));
    EXPECT_DOUBLE_EQ(spread(values), (4.2 - 1.8) / 3);
}

Counted counted(MemoryCount& memory, size_t bytes, const char* purpose) {
    return {memory, bytes, purpose, [] {}};
}

TEST(MemoryCount, HasThePeakAndRefusesWhatIsNotThere) {
    MemoryCount memory(100);
    {
        const Counted a = counted(memory, 60, "it");
        Counted b = counted(memory, 30, "it");
        const Counted c = std::move(b); // counted once
        EXPECT_EQ(memory.in_use(), 90);
        try {
            const Counted d(memory, 11, "it", [] { ADD_FAILURE() << "asked for more than there is"; });
            FAIL();
        } catch (const OutOfMemory& error) {
            EXPECT_EQ(error.wanted, 11);
            EXPECT_EQ(error.free, 10);
        }
        EXPECT_EQ(memory.in_use(), 90);
    }
    EXPECT_EQ(memory.in_use(), 0);
    EXPECT_EQ(memory.peak(), 90);
}

struct CountingSubject : Subject {
    void run() override {
        ++runs;
        const auto start = std::chrono::steady_clock::now();
        while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < least_seconds) {
        }
    }
    UntouchedVector<float> output() override { return {}; }
    int runs = 0;
    double least_seconds = 0;
};

// Reports a given launch time, and counts launches.
class SayingWorkbench : public Workbench {
public:
    std::function<double(int sample)> seconds = [](int) { return 0.02; };
    int samples = 0;
    int flushes = 0;

    std::unique_ptr<Subject> prepare(const Cell&, Pass, const CaseData&, MemoryCount&) override { return nullptr; }
    double sample(Subject& subject, int launches) override {
        for (int i = 0; i < launches; ++i) subject.run();
        return seconds(samples++);
    }
    void wait() override {}
    void flush_caches() override { ++flushes; }
    size_t free_bytes() override { return 0; }
    std::string machine_json() override { return "{}"; }
};

class TakeSamples : public ::testing::Test {
protected:
    Samples take() { return take_samples(workbench, subject, rules); }

    SayingWorkbench workbench;
    CountingSubject subject;
    Rules rules;
};

TEST_F(TakeSamples, AsManyAsAskedForAfterTheWarmUp) {
    rules.repeats = 4;
    const Samples samples = take();
    EXPECT_EQ(samples.seconds.size(), 4);
    EXPECT_EQ(samples.launches, 1);          // of 20 ms
    EXPECT_EQ(workbench.samples, 1 + 5 + 4); // the first, 0.1 s of warm-up
    EXPECT_EQ(workbench.flushes, 0);
}

TEST_F(TakeSamples, EndAfterTheLimitButNotBeforeThree) {
    rules.limit_s = 0;
    EXPECT_EQ(take().seconds.size(), 3);
    rules.repeats = 2;
    EXPECT_EQ(take().seconds.size(), 2);
}

TEST_F(TakeSamples, ColdOnesFlushBeforeEach) {
    workbench.seconds = [](int) { return 1e-3; };
    rules.cold = true;
    rules.repeats = 6;
    const Samples samples = take();
    EXPECT_EQ(samples.launches, 1);
    EXPECT_EQ(workbench.flushes, 6);
}

TEST_F(TakeSamples, OfTheWallClockOneIsTheMeanOfAll) {
    rules.timing = Timing::wall;
    rules.repeats = 300;
    const Samples samples = take();
    EXPECT_EQ(samples.seconds.size(), 1);
    EXPECT_EQ(samples.launches, 300);
    EXPECT_EQ(subject.runs, 3 + 300); // a hundredth to warm up
}

// ---- Operands kept from an earlier cell equal newly generated ones

// Its operands fill several of the pieces that threads generate.
Cell small_cell() {
    Cell cell;
    cell.impl = "f32";
    cell.batch_size = 2;
    cell.seq_len = 150;
    cell.num_heads = 4;
    cell.emb_dim = 4 * 24;
    return cell;
}

std::vector<float> anew(const Cell& cell, const Operation& operation) {
    const Problem problem = problem_of(cell, operation);
    std::vector<float> values(problem.floats_in(problem.input_rows()));
    fill_case_values({problem, distribution_of(cell.kind), 1}, 0, values.size(), values.data());
    for (float& value : values) value = rounded_to(cell.element, value);
    return values;
}

void expect_as_anew(const CaseData& data, const Cell& cell, const Operation& operation) {
    const std::vector<float> wanted = anew(cell, operation);
    ASSERT_EQ(data.values.size(), wanted.size());
    EXPECT_EQ(std::memcmp(data.values.data(), wanted.data(), wanted.size() * sizeof(float)), 0) << words_of(cell);
    EXPECT_EQ(data.problem.operation, &operation);
    EXPECT_EQ(data.problem.element, cell.element) << words_of(cell);
    EXPECT_EQ(data.problem.mask, cell.causal ? Mask::causal : Mask::none) << words_of(cell);
    EXPECT_EQ(data.problem.heads, cell.num_heads) << words_of(cell);
}

TEST(KeptData, IsAsMadeAnewWhateverCameBefore) {
    const std::function<void(Cell&)> changes[] = {
        [](Cell& cell) { cell.element = Element::bf16; },
        [](Cell& cell) { cell.element = Element::fp16; },
        [](Cell& cell) { cell.element = Element::float32; },
        [](Cell& cell) { cell.kind = "normal:3"; },
        [](Cell& cell) { cell.kind = "sink"; },
        [](Cell& cell) { cell.causal = true; },
        [](Cell& cell) { std::swap(cell.batch_size, cell.num_heads); }, // as many numbers, in another order
        [](Cell& cell) { cell.num_heads *= 2; },
        [](Cell& cell) { cell.seq_len += 1; },
        [](Cell& cell) { cell.emb_dim *= 2; },
        [](Cell& cell) { cell.impl = "fixed16"; },
    };
    KeptData kept;
    Cell cell = small_cell();
    for (const auto& change : changes) {
        for (const Operation* operation : {&kForward, &kBackward})
            expect_as_anew(kept.of(cell, *operation), cell, *operation);
        change(cell);
        for (const Operation* operation : {&kBackward, &kForward})
            expect_as_anew(kept.of(cell, *operation), cell, *operation);
    }
}

Row some_row() {
    Row row;
    row.cell = small_cell();
    row.of(Pass::forward).status = Status::ok;
    row.of(Pass::forward).seconds = {0.001, 0.002, 0.003};
    row.of(Pass::backward).status = Status::oom;
    row.of(Pass::forward_backward).status = Status::unsupported;
    row.of(Pass::forward_backward).reason = "says \"no\", twice";
    return row;
}

TEST(BenchRow, RatiosAreOfTheBaselineOnTheSameProblem) {
    const auto row_of = [](const char* impl, int64_t tokens, double seconds) {
        Row row = some_row();
        row.cell.impl = impl;
        row.cell.seq_len = tokens;
        row.of(Pass::forward).seconds = {seconds};
        return row;
    };
    Baseline baseline("naive");
    Row rows[] = {row_of("naive", 64, 6), row_of("naive", 128, 12), row_of("f32", 64, 2), row_of("f32", 256, 2)};
    rows[2].cell.element = Element::bf16;
    for (Row& row : rows) baseline.compare(row);
    EXPECT_EQ(rows[0].of(Pass::forward).ratio, 1);
    EXPECT_EQ(rows[2].of(Pass::forward).ratio, 3);
    EXPECT_EQ(rows[2].of(Pass::backward).ratio, 0); // it did not run
    EXPECT_EQ(rows[3].of(Pass::forward).ratio, 0);  // no baseline of this size
}

// JSON has no NaN.
TEST(BenchRow, AnErrorThatIsNaNIsNull) {
    Row row = some_row();
    row.of(Pass::forward).error.largest = std::nan("");
    EXPECT_NE(cell_json(row, {}).find("\"largest\": null"), std::string::npos);
}

// A measured training step: attention in the naive form, and the memory in use.

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

AllreduceCell cell_of(Via via, int64_t bytes) { return {via, bytes, 8, {0, 3, 10}}; }

// The first rank's row, which all ranks share.
AllreduceRow measured(const AllreduceCell& cell, int count) {
    AllreduceRow first;
    on_thread_ranks(count, [&](Ranks& ranks) {
        const auto collectives = ranks.collectives();
        const RankGroup group = group_of(ranks, "cpu", "");
        const AllreduceRow row = measure_allreduce(cell, group, ranks, *collectives);
        EXPECT_EQ(row.seconds.size(), row.outcome.status == Status::ok ? 3 : 0);
        if (ranks.is_first()) first = row;
    });
    return first;
}

TEST(Allreduce, AddsUpRightWhateverTheRanks) {
    for (const Via via : {Via::mpi, Via::ordered})
        for (const int ranks : {1, 2, 3, 5}) {
            const AllreduceRow row = measured(cell_of(via, 300004), ranks); // longer than a period of the numbers
            EXPECT_EQ(row.outcome.status, Status::ok) << row.outcome.reason;
            EXPECT_EQ(row.wrong, 0);
            EXPECT_TRUE(row.same_on_all);
            EXPECT_EQ(row.path, "host memory");
        }
}

TEST(Allreduce, InOrderHasTheSameBytesForEveryNumberOfRanks) {
    const std::string alone = measured(cell_of(Via::ordered, 40004), 1).crc32;
    for (const int ranks : {2, 3, 4, 8}) EXPECT_EQ(measured(cell_of(Via::ordered, 40004), ranks).crc32, alone);
    EXPECT_NE(measured(cell_of(Via::mpi, 40004), 3).crc32, alone); // the order of addition matters
}

TEST(Allreduce, WhatCannotRunSaysWhy) {
    const AllreduceRow row = measured(cell_of(Via::nccl, 4), 2);
    EXPECT_EQ(row.outcome.status, Status::unsupported);
    EXPECT_NE(allreduce_line(row).find("unsupported: NCCL adds up what is on GPUs"), std::string::npos);
}

// A library that loses a number.
class Forgetful : public ExchangedNumbers {
public:
    using ExchangedNumbers::ExchangedNumbers;
    void sum(float* values, size_t count) override {
        const float before = values[count - 1];
        ExchangedNumbers::sum(values, count);
        values[count - 1] = before;
    }
};

TEST(Allreduce, WrongNumbersAreCountedAndFail) {
    on_thread_ranks(2, [](Ranks& ranks) {
        Forgetful collectives(ranks);
        const AllreduceRow row =
            measure_allreduce(cell_of(Via::mpi, 300004), group_of(ranks, "cpu", ""), ranks, collectives);
        EXPECT_EQ(row.outcome.status, Status::failed);
        EXPECT_EQ(row.wrong, 2); // one on each rank
        EXPECT_FALSE(row.same_on_all);
    });
}

TEST(Allreduce, BandwidthsAreThoseOfNcclTests) {
    AllreduceRow row{cell_of(Via::mpi, 1000000), {4, 1, 1, "gpu", "Open MPI"}, {}, "host memory", {1e-3}, 0, "", true};
    EXPECT_DOUBLE_EQ(row.algorithm_bandwidth(), 1);
    EXPECT_DOUBLE_EQ(row.bus_bandwidth(), 1.5);
    EXPECT_NE(allreduce_line(row).find("ok: host memory, ranks share a GPU"), std::string::npos);
    EXPECT_TRUE(row.has_bandwidth());
    row.group.ranks = 1;
    EXPECT_FALSE(row.has_bandwidth());
}

TEST(RankGroup, ComesToOneOutcome) {
    on_thread_ranks(3, [](Ranks& ranks) {
        const Outcome outcome = agreed_outcome(ranks, [&] {
            if (ranks.rank() > 0) throw Unsupported("rank " + std::to_string(ranks.rank()));
        });
        EXPECT_EQ(outcome.status, Status::unsupported);
        EXPECT_EQ(outcome.reason, "rank 1");
        EXPECT_EQ(largest_of_ranks(ranks, {1, -1.0 * ranks.rank()}), (std::vector<double>{1, 0}));
    });
}

} // namespace
} // namespace hw4::bench
