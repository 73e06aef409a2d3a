// How samples are taken, their statistics, and rows.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include "src/bench/baseline.h"
#include "src/bench/measure.h"
#include "src/bench/memory_count.h"
#include "src/bench/row_json.h"
#include "src/bench/sampling.h"
#include "src/io/case_values.h"

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

} // namespace
} // namespace hw4::bench
