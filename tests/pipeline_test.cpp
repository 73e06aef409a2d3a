#include "../src/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "../src/cpu/engine.h"
#include "attention_case.h"
#include "temporary_folder.h"

namespace hw4 {
namespace {

using test::Failure;
using test::failure_of;
using test::read_file;
using test::write_file;

constexpr StagingLimits kSmall = {3, 2, 4096, 3 * 4096}; // a ring of three pages

// What a test may spoil in an engine, by the number of the call; -1: nothing.
struct Faults {
    int copy_in = -1;
    int wait = -1;
    int compute = -1;
    int fetch = -1;
};

// Passes Q through as the output, from slots in host memory: whatever arrives in the wrong place shows. Like a GPU it
// copies rows only later, when somebody waits for them, so that a staging buffer that is filled again too early shows
// too; and it watches that a slot is computed only after all its output was fetched.
class Passing : public Engine {
public:
    Passing(const EngineRequest& request, int slots, int64_t batches, int64_t queries, Faults faults)
        : shape_(request.shape), batches_(batches), queries_(queries), faults_(faults),
          in_(static_cast<size_t>(slots),
              std::vector<float>(static_cast<size_t>(batches) * shape_.batch_input_floats())),
          out_(static_cast<size_t>(slots), std::vector<float>(static_cast<size_t>(batches) * shape_.matrix_floats())),
          unfetched_rows_(static_cast<size_t>(slots)) {}

    int slots() const override { return static_cast<int>(in_.size()); }
    int64_t chunk_batches() const override { return batches_; }
    int64_t queries_at_once() const override { return queries_; }

    void copy_in(const RowsIn& rows) override {
        fail_if(faults_.copy_in, copies_++, "copy_in");
        const std::lock_guard<std::mutex> lock(mutex_);
        to_copy_.push_back(rows);
    }
    void wait_until_copied(int buffer) override {
        fail_if(faults_.wait, waits_++, "wait");
        copy_those([&](const RowsIn& rows) { return rows.buffer == buffer; });
    }

    void compute(const Work& work) override {
        fail_if(faults_.compute, computes_++, "compute");
        copy_those([&](const RowsIn& rows) { return rows.slot == work.slot; });
        std::atomic<int64_t>& unfetched = unfetched_rows_[static_cast<size_t>(work.slot)];
        if (work.first_query == 0) {
            EXPECT_EQ(unfetched, 0) << "slot " << work.slot;
        }
        unfetched += work.batches * work.queries;
        for (int64_t b = 0; b < work.batches; ++b) {
            const float* q = row(in_, work.slot, b * shape_.batch_input_rows() + work.first_query);
            std::copy(q, q + work.queries * shape_.dim, row(out_, work.slot, b * shape_.tokens + work.first_query));
        }
    }

    const float* fetch(const RowsOut& rows) override {
        fail_if(faults_.fetch, fetches_++, "fetch");
        unfetched_rows_[static_cast<size_t>(rows.slot)] -= rows.rows;
        const float* from = row(out_, rows.slot, rows.first_row);
        if (rows.slot % 2 == 1) return from;
        std::copy(from, from + rows.rows * shape_.dim, rows.staging);
        return rows.staging;
    }

    EngineFacts finish() override { return {}; }

private:
    static void fail_if(int at, int call, const char* what) {
        if (call == at) throw Error(ExitCode::internal, what);
    }
    float* row(std::vector<std::vector<float>>& memory, int slot, int64_t index) {
        return memory[static_cast<size_t>(slot)].data() + index * shape_.dim;
    }
    template <class Chosen>
    void copy_those(const Chosen& chosen) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto rest = std::stable_partition(to_copy_.begin(), to_copy_.end(), chosen);
        for (auto rows = to_copy_.begin(); rows != rest; ++rows)
            std::copy(rows->from, rows->from + rows->rows * shape_.dim, row(in_, rows->slot, rows->first_row));
        to_copy_.erase(to_copy_.begin(), rest);
    }

    const Shape shape_;
    const int64_t batches_;
    const int64_t queries_;
    const Faults faults_;
    std::vector<std::vector<float>> in_;
    std::vector<std::vector<float>> out_;
    std::vector<std::atomic<int64_t>> unfetched_rows_; // by slot
    std::mutex mutex_;
    std::vector<RowsIn> to_copy_;
    std::atomic<int> copies_{0}, waits_{0}, computes_{0}, fetches_{0};
};

class PipelineRun : public ::testing::Test {
protected:
    MakeEngine passing(int slots, int64_t batches, int64_t queries = 0, Faults faults = {}) {
        return [=](const EngineRequest& request) {
            return std::make_unique<Passing>(request, slots, batches, queries > 0 ? queries : request.shape.tokens,
                                             faults);
        };
    }

    void write_case(int32_t batches, int32_t tokens, int32_t dim) {
        write_file(folder_ / "a.in", test::counting_case(batches, tokens, dim));
    }

    void run(const MakeEngine& make_engine, const StagingLimits& limits = kSmall) {
        CaseReader input(folder_ / "a.in");
        OutputFile output(folder_ / "a.out", interrupts_);
        run_pipeline(input, output, {}, limits, make_engine, nullptr);
        output.commit(false);
    }

    std::string queries_of_the_case() const {
        const Shape shape = CaseReader(folder_ / "a.in").shape();
        const std::string bytes = read_file(folder_ / "a.in").substr(12);
        std::string queries;
        for (int64_t b = 0; b < shape.batches; ++b)
            queries += bytes.substr(static_cast<size_t>(b) * shape.batch_input_bytes(), shape.batch_output_bytes());
        return queries;
    }

    // What is left after a run that fails: the input alone.
    Failure failure(const MakeEngine& make_engine, const StagingLimits& limits = kSmall) {
        const Failure failed = failure_of([&] { run(make_engine, limits); });
        EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.in"});
        return failed;
    }

    InterruptGuard interrupts_;
    test::TemporaryFolder folder_;
};

TEST_F(PipelineRun, PutsEveryRowInItsPlace) {
    // Batches of a few bytes, of about a staging buffer, of many; rows longer than a buffer.
    for (const auto& [batches, tokens, dim] :
         {std::array{1, 1, 1}, {1000, 1, 1}, {300, 3, 5}, {20, 30, 33}, {7, 1000, 8}, {1, 5000, 7}, {3, 2, 3000}}) {
        write_case(batches, tokens, dim);
        for (const int slots : {1, 2, 4})
            for (const int64_t chunk : {1, 3, 64}) {
                run(passing(slots, chunk));
                EXPECT_TRUE(read_file(folder_ / "a.out") == queries_of_the_case())
                    << batches << " " << tokens << " " << dim << ", " << slots << " slots of " << chunk;
            }
    }
}

// While it is made, the pages of the output are; none of their zeros may come after what was computed.
TEST_F(PipelineRun, AnEngineMayTakeItsTime) {
    write_case(400, 64, 16);
    for (const int microseconds : {0, 50, 300, 2000, 20000}) {
        run([&](const EngineRequest& request) {
            std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
            return passing(2, 5)(request);
        });
        EXPECT_TRUE(read_file(folder_ / "a.out") == queries_of_the_case()) << microseconds;
    }
}

TEST_F(PipelineRun, TakesABatchInSlicesOfItsQueries) {
    write_case(3, 1000, 9);
    for (const int64_t queries : {1, 64, 999, 1000, 5000}) {
        run(passing(2, 1, queries));
        EXPECT_TRUE(read_file(folder_ / "a.out") == queries_of_the_case()) << queries;
    }
}

// One batch as the GPU takes it: in slices of 32768 queries, through buffers of the usual size.
TEST_F(PipelineRun, TakesALongSequence) {
    write_case(1, 1 << 18, 5);
    run(passing(1, 1, 1 << 15), {});
    EXPECT_TRUE(read_file(folder_ / "a.out") == queries_of_the_case());
}

TEST_F(PipelineRun, TakesManyBatches) {
    write_case(14000, 3, 5);
    run(passing(4, 100), {});
    EXPECT_TRUE(read_file(folder_ / "a.out") == queries_of_the_case());
}

TEST_F(PipelineRun, AFileMayBeAHundredTimesTheRing) {
    write_case(400, 64, 16); // 4.9 MB through 12 KiB
    run(passing(2, 5));
    EXPECT_TRUE(read_file(folder_ / "a.out") == queries_of_the_case());
}

TEST_F(PipelineRun, GivesTheReferenceBytesOnTheCpu) {
    const AttentionCase test({12, 50, 20}, CaseKind::spread, 3);
    write_file(folder_ / "a.in", test::header_bytes(12, 50, 20) + test::bytes_of(test.qkv.data(), test.qkv.size()));
    for (const int64_t chunk : {1, 5, 12}) {
        CaseReader input(folder_ / "a.in");
        OutputFile output(folder_ / "a.out", interrupts_);
        EngineOptions options;
        options.chunk_batches = chunk;
        Timeline timeline;
        const RunReport report = run_pipeline(input, output, options, kSmall, cpu::make_engine, &timeline);
        output.commit(false);
        EXPECT_EQ(report.engine.chunk_batches, chunk);
        EXPECT_EQ(read_file(folder_ / "a.out"), test::bytes_of(test.expected.data(), test.expected.size()));
        const TimelineSummary stages = summarise(timeline.spans());
        EXPECT_EQ(stages[Stage::read].bytes, test.shape.input_bytes());
        EXPECT_EQ(stages[Stage::write].bytes, test.shape.output_bytes());
    }
}

TEST_F(PipelineRun, AnErrorOfAnyCallStopsTheRun) {
    write_case(40, 64, 16);
    const auto fails_in = [&](const Faults& faults) { return failure(passing(2, 3, 0, faults)); };
    for (const int call : {0, 1, 7}) {
        Faults faults;
        faults.copy_in = call;
        EXPECT_EQ(fails_in(faults), (Failure{ExitCode::internal, "copy_in"})) << call;
        faults = {};
        faults.wait = call;
        EXPECT_EQ(fails_in(faults), (Failure{ExitCode::internal, "wait"})) << call;
        faults = {};
        faults.compute = call;
        EXPECT_EQ(fails_in(faults), (Failure{ExitCode::internal, "compute"})) << call;
        faults = {};
        faults.fetch = call;
        EXPECT_EQ(fails_in(faults), (Failure{ExitCode::internal, "fetch"})) << call;
    }
}

TEST_F(PipelineRun, AnEngineThatCannotBeMadeStopsTheRun) {
    write_case(40, 64, 16);
    EXPECT_EQ(failure([](const EngineRequest&) -> std::unique_ptr<Engine> {
                  throw Error(ExitCode::no_gpu, "no usable GPU");
              }),
              (Failure{ExitCode::no_gpu, "no usable GPU"}));
}

TEST_F(PipelineRun, NamesTheSameOfSeveralFlawsEveryTime) {
    const std::string good = test::counting_case(40, 64, 16);
    std::string bad = good;
    const float nan = NAN;
    for (const int batch : {9, 23, 39}) // far apart: different readers find them
        std::memcpy(bad.data() + 12 + batch * 64 * 16 * 12, &nan, sizeof nan);
    write_file(folder_ / "a.in", bad);
    for (int run = 0; run < 20; ++run)
        EXPECT_EQ(failure(passing(2, 3)).message,
                  (folder_ / "a.in") + ": batch 9, Q, row 0, column 0: nan, need a finite number");
}

TEST_F(PipelineRun, SaysThatTheOutputHasNoRoom) {
    if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
    write_case(40, 64, 16);
    CaseReader input(folder_ / "a.in");
    OutputFile output("/dev/full", interrupts_);
    EXPECT_EQ(failure_of([&] { run_pipeline(input, output, {}, kSmall, passing(2, 3), nullptr); }),
              (Failure{ExitCode::io_error, "/dev/full: cannot write: No space left on device"}));
}

// The other end of a pipe may never send what is missing: the reader must not keep the run from ending.
TEST_F(PipelineRun, DoesNotWaitForAPipeWhenAnotherStageFails) {
    const std::string path = folder_ / "a.in";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    std::atomic<bool> over{false};
    std::thread feeder([&] {
        std::ofstream pipe(path, std::ios::binary);
        pipe << test::counting_case(40, 64, 16).substr(0, 100000) << std::flush;
        while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    Faults faults;
    faults.compute = 0;
    const Failure failed = failure(passing(1, 1, 0, faults));
    over = true;
    feeder.join();
    EXPECT_EQ(failed, (Failure{ExitCode::internal, "compute"}));
}

TEST(StagingLimitsTest, FollowTheProcessors) {
    EXPECT_EQ(staging_limits(1).readers, 2);
    EXPECT_EQ(staging_limits(1).writers, 2);
    EXPECT_EQ(staging_limits(16).readers, 8);
    EXPECT_EQ(staging_limits(16).writers, 4);
    EXPECT_EQ(staging_limits(128).readers, 8);
}

} // namespace
} // namespace hw4
