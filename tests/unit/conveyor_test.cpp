#include "src/run/conveyor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <future>
#include <map>

#include "src/base/file_descriptor.h"
#include "src/run/first_failure.h"
#include "tests/support/listed_cases.h"
#include "tests/support/passing_engine.h"
#include "tests/support/sleeping_threads.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

constexpr StagingLimits kSmall = {3, 2, 4096, 3 * 4096}; // a ring of three pages

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

    // Also checks the output of the cases that did not fail.
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
