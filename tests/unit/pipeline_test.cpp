#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <thread>

#include "src/base/file_descriptor.h"
#include "src/cpu/engine.h"
#include "src/run/conveyor.h"
#include "src/run/first_failure.h"
#include "src/run/pipeline.h"
#include "tests/support/attention_case.h"
#include "tests/support/listed_cases.h"
#include "tests/support/passing_engine.h"
#include "tests/support/sleeping_threads.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

constexpr StagingLimits kSmall = {3, 2, 4096, 3 * 4096}; // a ring of three pages

class PipelineRun : public ::testing::Test {
protected:
    MakeEngine passing(int slots, int64_t batches, int64_t queries = 0, const Faults& faults = {},
                       Leaves leaves = Leaves::by_turns) {
        return [=](const EngineRequest& request) {
            return std::make_unique<PassingEngine>(request, Cut{slots, batches, queries}, faults, leaves);
        };
    }

    void write_case(int32_t batches, int32_t tokens, int32_t dim) {
        write_file(folder_ / "a.in", counting_case(batches, tokens, dim));
    }

    void run(const MakeEngine& make_engine, const std::string& lse_name = "") {
        CaseReader input(folder_ / "a.in");
        OutputFile output(folder_ / "a.out", interrupts_);
        std::optional<OutputFile> lse;
        if (!lse_name.empty()) lse.emplace(lse_name, interrupts_);
        run_case({input, output, {}, kSmall, always(make_engine), nullptr, lse ? &*lse : nullptr});
        output.commit(false);
        if (lse) lse->commit(false);
    }

    // The statistics that a passing engine reports for these rows.
    std::string logsumexps_of_the_case() const {
        const Problem problem = CaseReader(folder_ / "a.in").problem();
        const std::string queries = queries_of_the_case();
        std::vector<RowStatistics> rows;
        for (size_t at = 0; at < queries.size(); at += problem.row_bytes())
            rows.push_back(PassingEngine::statistics_of(queries.data() + at, problem.row_bytes()));
        std::vector<float> values(rows.size());
        logsumexps(kF32, problem, rows.data(), problem.output_rows(), values.data());
        return bytes_of(values.data(), values.size());
    }

    std::string queries_of_the_case() const { return queries_of(read_file(folder_ / "a.in")); }

    // After a failed run only the input is left.
    Failure failure(const MakeEngine& make_engine) {
        const Failure failed = failure_of([&] { run(make_engine); });
        EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.in"});
        return failed;
    }

    InterruptGuard interrupts_;
    TemporaryFolder folder_;
};

TEST_F(PipelineRun, PutsEveryRowAndItsLogsumexpInItsPlace) {
    // Batches of a few bytes, of about a staging buffer, of many; rows longer than a buffer.
    for (const auto& [batches, tokens, dim] :
         {std::array{1, 1, 1}, {1000, 1, 1}, {300, 3, 5}, {20, 30, 33}, {7, 1000, 8}, {1, 5000, 7}, {3, 2, 3000}}) {
        write_case(batches, tokens, dim);
        for (const int slots : {1, 2, 4})
            for (const int64_t chunk : {1, 3, 64})
                for (const std::string& lse : {std::string(), folder_ / "a.lse"}) {
                    SCOPED_TRACE(std::to_string(slots) + " slots of " + std::to_string(chunk) + " " + lse);
                    run(passing(slots, chunk), lse);
                    EXPECT_TRUE(read_file(folder_ / "a.out") == queries_of_the_case()) << batches << " " << tokens;
                    EXPECT_TRUE(lse.empty() || read_file(lse) == logsumexps_of_the_case()) << batches << " " << tokens;
                }
    }
    write_case(3, 1000, 9);
    run(passing(2, 1, 64), folder_ / "a.lse"); // in slices
    EXPECT_TRUE(read_file(folder_ / "a.lse") == logsumexps_of_the_case());
}

// Writes to the pipe in order, although the output, a plain file, could be written in any order.
TEST_F(PipelineRun, WritesLogsumexpsToAPipeInTheirOrder) {
    write_case(400, 64, 16);
    const std::string path = folder_ / "pipe";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    auto read = std::async(std::launch::async, [&] { return read_file(path); });
    run(passing(2, 5), path);
    EXPECT_TRUE(read.get() == logsumexps_of_the_case());
    EXPECT_TRUE(read_file(folder_ / "a.out") == queries_of_the_case());
}

// While the engine is made, the output's pages are prepared; their zeros must never overwrite computed rows.
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

std::unique_ptr<Engine> make_cpu_engine(const EngineRequest& request) { return cpu::make_engine(request); }

TEST_F(PipelineRun, GivesTheReferenceBytesOnTheCpu) {
    const AttentionCase test({12, 50, 20}, CaseKind::spread, 3);
    write_file(folder_ / "a.in", header_bytes(12, 50, 20) + bytes_of(test.qkv.data(), test.qkv.size()));
    std::vector<float> expected_lse(test.statistics.size());
    logsumexps(kF32, test.problem, test.statistics.data(), test.problem.output_rows(), expected_lse.data());
    for (const int64_t chunk : {1, 5, 12}) {
        CaseReader input(folder_ / "a.in");
        OutputFile output(folder_ / "a.out", interrupts_);
        OutputFile lse(folder_ / "a.lse", interrupts_);
        EngineOptions options;
        options.chunk_batches = chunk;
        Timeline timeline;
        const RunReport report = run_case({input, output, options, kSmall, always(make_cpu_engine), &timeline, &lse});
        output.commit(false);
        lse.commit(false);
        EXPECT_EQ(report.engine.chunk_batches, chunk);
        EXPECT_EQ(read_file(folder_ / "a.out"), bytes_of(test.expected.data(), test.expected.size()));
        EXPECT_EQ(read_file(folder_ / "a.lse"), bytes_of(expected_lse.data(), expected_lse.size()));
        const TimelineSummary stages = summarise(timeline.spans());
        EXPECT_EQ(stages[Stage::read].bytes, test.problem.input_bytes());
        EXPECT_EQ(stages[Stage::write].bytes, test.problem.output_bytes() + expected_lse.size() * sizeof(float));
    }
}

TEST_F(PipelineRun, AnErrorOfAnyCallStopsTheRun) {
    write_case(40, 64, 16);
    const std::pair<int Faults::*, const char*> faulty[] = {{&Faults::copy_in, "copy_in"},
                                                            {&Faults::wait, "wait"},
                                                            {&Faults::compute, "compute"},
                                                            {&Faults::fetch, "fetch"}};
    for (const auto& [fault, name] : faulty)
        for (const int call : {0, 1, 7}) {
            Faults faults;
            faults.*fault = call;
            EXPECT_EQ(failure(passing(2, 3, 0, faults)), (Failure{ExitCode::internal, name})) << call;
        }
}

// No disk has half a petabyte.
TEST_F(PipelineRun, ReservesNothingForWhatAPipeOnlyClaims) {
    const std::string path = folder_ / "a.in";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    FileDescriptor other_end(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    const std::string header = header_bytes(INT32_MAX, 1024, 64);
    ASSERT_EQ(::write(other_end.get(), header.data(), header.size()), static_cast<ssize_t>(header.size()));
    const auto end_once_all_wait = [&](const EngineRequest& request) {
        EXPECT_TRUE(other_threads_sleep_soon());
        other_end = FileDescriptor();
        return passing(1, 1)(request);
    };
    EXPECT_EQ(failure(end_once_all_wait).code, ExitCode::bad_data);
}

TEST_F(PipelineRun, NamesTheSameOfSeveralFlawsEveryTime) {
    const std::string good = counting_case(40, 64, 16);
    std::string bad = good;
    const float nan = NAN;
    for (const int batch : {9, 23, 39}) // far apart: different readers find them
        std::memcpy(bad.data() + 12 + batch * 64 * 16 * 12, &nan, sizeof nan);
    write_file(folder_ / "a.in", bad);
    for (int run = 0; run < 20; ++run)
        EXPECT_EQ(failure(passing(2, 3)).message,
                  (folder_ / "a.in") + ": batch 9, Q, row 0, column 0: nan, need a finite number");
}

// An output that takes nothing stops the writer: a slot whose rows are written directly from it must wait, but a slot
// whose rows were already fetched need not.
TEST_F(PipelineRun, ComputesASlotAgainOnceNoWriterNeedsItsRows) {
    write_case(3, 2048, 16); // a batch's output is twice a pipe's capacity
    const std::string path = folder_ / "pipe";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    for (const Leaves leaves : {Leaves::in_slot, Leaves::in_staging}) {
        std::atomic<int> computed{0};
        Faults watch;
        watch.before_compute = [&] { ++computed; };
        const FileDescriptor reading(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        auto failed = std::async(std::launch::async, [&] {
            return failure_of([&] {
                CaseReader input(folder_ / "a.in");
                OutputFile output(path, interrupts_);
                run_case({input, output, {}, {1, 1, 1 << 20, 2 << 20}, always(passing(1, 1, 0, watch, leaves))});
                output.commit(false);
            });
        });
        const int wanted = leaves == Leaves::in_slot ? 1 : 2;
        EXPECT_TRUE(soon([&] { return computed >= wanted && other_threads_sleep(); }));
        EXPECT_EQ(computed, wanted);
        std::string written;
        EXPECT_TRUE(soon([&] {
            char some[4096];
            ssize_t got = 0;
            while ((got = ::read(reading.get(), some, sizeof some)) > 0) written.append(some, static_cast<size_t>(got));
            return failed.wait_for(std::chrono::seconds(0)) == std::future_status::ready && got == 0;
        }));
        EXPECT_EQ(failed.get(), Failure{});
        EXPECT_TRUE(written == queries_of_the_case());
    }
}

// A pipe that may never get the missing bytes, and a run that fails while its reader waits for them.
class SilentPipe : public PipelineRun {
protected:
    SilentPipe() {
        const std::string path = folder_ / "a.in";
        // More than one batch, but less than one more piece; the pipe can hold all of it before it is read.
        const std::string sent = counting_case(40, 64, 16).substr(0, 12 + 64 * 16 * 12 + 4096 + 1000);
        if (::mkfifo(path.c_str(), 0600) == 0) other_end_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        EXPECT_EQ(::write(other_end_.get(), sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
    }

    // An engine that computes the first batch only once the reader waits for more.
    MakeEngine patient(Faults faults = {}) {
        faults.before_compute = [this] {
            EXPECT_TRUE(soon([&] {
                int unread = -1;
                return ::ioctl(other_end_.get(), FIONREAD, &unread) == 0 && unread == 0 && other_threads_sleep();
            }));
        };
        return passing(1, 1, 0, faults);
    }

    // A run that still waits is ended by closing the pipe, which it takes for the end of the file.
    Failure failure_in_time(const std::string& output, const MakeEngine& make_engine) {
        CaseReader input(folder_ / "a.in");
        OutputFile file(output, interrupts_);
        auto failed = std::async(std::launch::async, [&] {
            return failure_of([&] { run_case({input, file, {}, kSmall, always(make_engine)}); });
        });
        EXPECT_EQ(failed.wait_for(2 * kPatience), std::future_status::ready) << "the reader waits on";
        other_end_ = FileDescriptor();
        return failed.get();
    }

    FileDescriptor other_end_;
};

TEST_F(SilentPipe, DoesNotKeepAFailedEngineWaiting) {
    Faults faults;
    faults.compute = 0;
    EXPECT_EQ(failure_in_time(folder_ / "a.out", patient(faults)), (Failure{ExitCode::internal, "compute"}));
}

TEST_F(SilentPipe, DoesNotKeepAFailedWriterWaiting) {
    if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
    EXPECT_EQ(failure_in_time("/dev/full", patient()),
              (Failure{ExitCode::io_error, "/dev/full: cannot write: No space left on device"}));
}

TEST(StagingLimitsTest, FollowTheProcessors) {
    for (const auto& [processors, readers, writers] : {std::array{1, 2, 2}, {12, 6, 3}, {16, 8, 4}, {128, 8, 4}}) {
        EXPECT_EQ(staging_limits(processors).readers, readers) << processors;
        EXPECT_EQ(staging_limits(processors).writers, writers) << processors;
    }
}

class ConveyorRun : public ::testing::Test {
protected:
    static ChooseEngine passing(const Cut& cut, const Faults& faults = {}, Leaves leaves = Leaves::by_turns) {
        return [=](const EngineRequest&) {
            return EngineMaker{"passing", [=](const EngineRequest& request) {
                                   return std::make_unique<PassingEngine>(request, cut, faults, leaves);
                               }};
        };
    }

    // Adds a case of this shape; its data continues to count from the case before.
    size_t add(int32_t batches, int32_t tokens, int32_t dim) {
        std::string bytes = counting_case(batches, tokens, dim);
        const auto first = static_cast<float>(1000 * wanted_.size());
        std::memcpy(bytes.data() + 12, &first, sizeof first);
        return add(bytes);
    }
    size_t add(const std::string& bytes) {
        const std::string name = folder_ / std::to_string(wanted_.size());
        write_file(name + ".in", bytes);
        names_.push_back({name + ".in", name + ".out"});
        wanted_.push_back(queries_of(bytes));
        return wanted_.size() - 1;
    }
    void add_several() {
        for (const auto& [batches, tokens, dim] : {std::array{20, 30, 33}, {1, 1, 1}, {300, 3, 5}, {7, 100, 8}})
            add(batches, tokens, dim);
    }

    // Returns the cases that failed.
    std::map<size_t, Failure> run(const ChooseEngine& choose, const StagingLimits& limits = kSmall) {
        ListedCases cases(names_, interrupts_);
        run(cases, choose, limits);
        return failures_in(cases);
    }
    void run(ListedCases& cases, const ChooseEngine& choose, const StagingLimits& limits = kSmall) {
        run_conveyor(cases, {{}, limits, plan_for_any(limits), true, choose, nullptr});
        EXPECT_EQ(cases.open, 0);
    }

    // Checks the output of the cases that did not fail, too.
    std::map<size_t, Failure> failures_in(const ListedCases& cases) const {
        std::map<size_t, Failure> failures;
        EXPECT_EQ(cases.ends.size(), names_.size());
        for (size_t i = 0; i < cases.ends.size(); ++i) {
            if (cases.ends[i] == Failure{})
                EXPECT_TRUE(read_file(names_[i].output) == wanted_[i]) << i;
            else
                failures[i] = cases.ends[i];
        }
        return failures;
    }

    const std::map<size_t, Failure> none_{};
    InterruptGuard interrupts_;
    TemporaryFolder folder_;
    std::vector<Names> names_;
    std::vector<std::string> wanted_;
};

TEST_F(ConveyorRun, PutsEveryRowOfEveryCaseInItsPlace) {
    using Sizes = std::array<int, 3>;
    // Batches of a few bytes, of about a staging buffer, of many; rows longer than a buffer; cases that grow or shrink.
    for (const auto& [batches, tokens, dim] :
         {Sizes{1, 1, 1}, Sizes{300, 3, 5}, Sizes{1, 1, 1}, Sizes{20, 30, 33}, Sizes{3, 2, 3000}, Sizes{1, 500, 7},
          Sizes{1, 2, 2}, Sizes{2, 1, 5000}, Sizes{7, 200, 8}, Sizes{100, 1, 1}})
        add(batches, tokens, dim);
    for (const int slots : {1, 2, 4})
        for (const int64_t chunk : {1, 3, 64})
            for (const Leaves leaves : {Leaves::in_slot, Leaves::in_staging})
                EXPECT_EQ(run(passing({slots, chunk}, {}, leaves)), none_) << slots << " slots of " << chunk;
    EXPECT_EQ(run(passing({2, 1, 3})), none_) << "in slices";
}

// There are several writers, but only one at a time writes to pipes.
TEST_F(ConveyorRun, WritesToPipesInOrder) {
    add_several();
    const std::string pipe = folder_ / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const FileDescriptor kept_open(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
    std::string both;
    for (const size_t i : {0u, 2u}) {
        names_[i].output = pipe;
        both += wanted_[i];
    }
    ListedCases cases(names_, interrupts_);
    auto done = std::async(std::launch::async, [&] { run(cases, passing({2, 3})); });
    std::string read(both.size(), '\0');
    for (size_t at = 0; at < read.size();) {
        const ssize_t got = ::read(kept_open.get(), read.data() + at, read.size() - at);
        ASSERT_GT(got, 0);
        at += static_cast<size_t>(got);
    }
    done.get();
    EXPECT_TRUE(read == both);
    for (const Failure& end : cases.ends) EXPECT_EQ(end, Failure{});
}

TEST_F(ConveyorRun, MakesAnEngineOnceForAllItsCases) {
    add_several();
    add_several();
    int made = 0;
    int asked = 0;
    EXPECT_EQ(run([&](const EngineRequest& first) {
                  EngineMaker maker = passing({2, 3})(first);
                  maker.device = asked++ % 3 == 1 ? "one" : "another";
                  maker.make = [&made, make = maker.make](const EngineRequest& request) {
                      ++made;
                      return make(request);
                  };
                  return maker;
              }),
              none_);
    EXPECT_EQ(asked, 8);
    EXPECT_EQ(made, 2);
}

// ---- Failures of one case. The others are computed, wherever the failed case is in the list.

class OneFails : public ConveyorRun, public ::testing::WithParamInterface<size_t> {
protected:
    OneFails() {
        add_several();
        names_.pop_back();
        wanted_.pop_back();
    }
    std::string& input() { return names_[GetParam()].input; }

    static ChooseEngine engine(Faults faults = {}) {
        faults.case_fails = true;
        return passing({2, 3}, faults);
    }

    void expect_failure(const ChooseEngine& choose, ExitCode code, const std::string& message) {
        for (int run_number = 0; run_number < 3; ++run_number) {
            EXPECT_EQ(run(choose), (std::map<size_t, Failure>{{GetParam(), {code, message}}}));
            for (const std::string& name : folder_.names()) EXPECT_EQ(name.find(".tmp"), std::string::npos) << name;
        }
    }
};

TEST_P(OneFails, ThatNoEngineTakes) {
    int asked = 0;
    const auto refuse_one = [&](const EngineRequest& request) {
        if (request.input == input()) throw Error(ExitCode::bad_data, "no kernel");
        ++asked;
        return engine()(request);
    };
    expect_failure(refuse_one, ExitCode::bad_data, "no kernel");
}

TEST_P(OneFails, WhoseEngineHasNoMemory) {
    // The engine is created for the first case, so it only begins the second.
    Faults faults;
    faults.code = ExitCode::out_of_memory;
    if (GetParam() == 0)
        faults.compute = 0;
    else
        faults.begin = static_cast<int>(GetParam()) - 1;
    expect_failure(engine(faults), ExitCode::out_of_memory, GetParam() == 0 ? "compute" : "begin");
}

INSTANTIATE_TEST_SUITE_P(Conveyor, OneFails, ::testing::Values(size_t{0}, size_t{1}, size_t{2}));

// When it fails, some of its output is written, and its slots are not free.
TEST_F(ConveyorRun, ACaseMayFailInItsMiddle) {
    add(20, 30, 33);
    add(40, 64, 16);
    add(7, 100, 8);
    for (const int call : {8, 9, 12}) {
        Faults faults;
        faults.code = ExitCode::out_of_memory;
        faults.case_fails = true;
        for (int Faults::*const fault : {&Faults::copy_in, &Faults::compute, &Faults::fetch}) {
            faults.*fault = call;
            const std::map<size_t, Failure> failures = run(passing({2, 3}, faults));
            EXPECT_EQ(failures.size(), 1u) << call;
            faults.*fault = -1;
        }
    }
}

// ---- Failures of all cases.

TEST_F(ConveyorRun, ABrokenEngineDoesNotWaitForTheNextCase) {
    add_several();
    Faults faults;
    faults.compute = 0;
    ListedCases cases(names_, interrupts_);
    cases.may_open = [&](int number) {
        EXPECT_TRUE(number == 0 || soon([&] { return cases.given_up.load(); }));
        return number == 0;
    };
    EXPECT_EQ(failure_of([&] { run(cases, passing({2, 3}, faults)); }), (Failure{ExitCode::internal, "compute"}));
}

TEST(FirstFailure, IsKeptThoughItsStopMakesOthersFail) {
    bool stopped = false;
    FirstFailure failure([&] {
        if (!std::exchange(stopped, true)) failure.guard([] { throw Stopped(); });
    });
    failure.guard([] { throw Error(ExitCode::internal, "the reason"); });
    EXPECT_EQ(failure_of([&] { failure.rethrow(); }).message, "the reason");
}

// ---- Order of waiting.

// A program may write the next line only after it has seen the result of this case.
TEST_F(ConveyorRun, ACaseIsSettledBeforeTheNextIsThere) {
    add_several();
    ListedCases cases(names_, interrupts_);
    cases.may_open = [&](int number) { return soon([&] { return cases.over == number; }); };
    run(cases, passing({2, 3}));
    EXPECT_EQ(failures_in(cases), none_);
}

// The input is a pipe: the bytes that are read leave it.
TEST_F(ConveyorRun, TheNextCaseIsReadWhileThisOneIsComputed) {
    add(1, 3, 4);
    const size_t next = add(5, 30, 2); // fits into a pipe
    const std::string bytes = read_file(names_[next].input);
    const std::string path = names_[next].input += ".pipe";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    FileDescriptor other_end(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::write(other_end.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    Faults watch;
    watch.before_compute = [&] {
        EXPECT_TRUE(soon([&] {
            int unread = -1;
            return !other_end.valid() || (::ioctl(other_end.get(), FIONREAD, &unread) == 0 && unread == 0);
        }));
        other_end = FileDescriptor(); // ends the file
    };
    EXPECT_EQ(run(passing({1, 8}, watch), {3, 2, 4096, 8 * 4096}), none_);
}

} // namespace
} // namespace hw4
