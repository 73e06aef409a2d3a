#include "src/cpu/engine.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "src/base/error.h"
#include "src/base/parallel.h"
#include "tests/support/attention_case.h"
#include "tests/support/compute_batches.h"
#include "tests/support/cpu_subjects.h"
#include "tests/support/like_reference.h"
#include "tests/support/long_sequence.h"
#include "tests/support/mixed_rows.h"
#include "tests/support/problems.h"
#include "tests/support/temporary_folder.h"

namespace hw4::cpu {
namespace {

std::vector<float> attend(const Kernel& kernel, const AttentionCase& test, int threads) {
    std::vector<float> out(test.expected.size(), NAN); // poisoned: every value must be written
    std::vector<RowStatistics> statistics(test.statistics.size(), {NAN, NAN, NAN});
    compute_batches(kernel, test.problem, test.qkv.data(), out.data(), threads, statistics.data());
    EXPECT_TRUE(same_statistics(test.statistics, statistics)) << test.name << ", " << threads;
    return out;
}

using Lines = std::unique_ptr<void, void (*)(void*)>;

Lines lines_of(size_t bytes) { return {std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free}; }

class EachKernel : public testing::TestWithParam<Kernel> {
protected:
    void SetUp() override {
        if (!GetParam().needs.processor()) GTEST_SKIP() << "this processor has no " << GetParam().name;
    }

    static const Contract& contract() { return *GetParam().under; }

    static void expect_reference_bytes(const AttentionCase& test, std::initializer_list<int> threads) {
        for (const int count : threads)
            EXPECT_TRUE(same_bytes(test.expected, attend(GetParam(), test, count))) << test.name << ", " << count;
    }

    // The contract's first kernel, which runs on any processor.
    static const Kernel& plainest() {
        const auto of_contract = [](const Kernel& kernel) { return kernel.under == &contract(); };
        return *std::find_if(kernels().begin(), kernels().end(), of_contract);
    }
};

class EachFloatKernel : public EachKernel {}; // their rows may have any length

TEST_P(EachKernel, GivesTheReferenceBytesOnEveryKindAndCorner) {
    for (const auto& [problem, kind] : corner_cases())
        expect_reference_bytes(reference_case(problem, kind, 11, contract()), {2});
}

TEST_P(EachKernel, GivesTheReferenceBytesOnKindsThatAreTimed) {
    for (const Problem& problem : timed_problems())
        for (const Distribution& values : timed_distributions())
            expect_reference_bytes(reference_case(problem, values, 11, contract()), {2});
}

TEST_P(EachKernel, GivesTheReferenceBytesOnMixedRows) {
    for (const AttentionCase& test : mixed_rows_cases(contract())) expect_reference_bytes(test, {2});
}

TEST_P(EachKernel, TakesALongSequence) {
    const LongSequence test(8);
    const double tolerance = &contract() == &kFixed16 ? 1e-4 : 1e-6;
    for (const int64_t row : {int64_t{0}, test.problem.queries - 1}) {
        const std::vector<float> out = test.rows_by(GetParam(), row, 1);
        EXPECT_TRUE(same_bytes(test.rows_by(plainest(), row, 1), out)) << row;
        const std::vector<double> wanted = test.row_by_definition(row);
        for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], wanted[i], tolerance) << row << ", column " << i;
    }
}

// Enough batches for each thread to take whole ones where something is prepared, one fewer, and many more.
TEST_P(EachKernel, TakesAnyNumberOfBatches) {
    for (const Problem& problem : {Problem{15, 130, 5}, Problem{16, 130, 5}, Problem{1, 3, 2}, Problem{14000, 8, 4}})
        expect_reference_bytes(reference_case(problem, CaseKind::uniform, 8, contract()), {1, 2, 5});
}

// Groups of heads that share keys, as many as there are threads, fewer and more; either length longer.
TEST_P(EachKernel, TakesHeadsAndTwoLengths) {
    for (const Sizes& sizes : {Sizes{1, 4, 2, 70, 200, 20}, Sizes{3, 6, 1, 200, 70, 20}, Sizes{2, 3, 3, 1, 130, 20},
                               Sizes{2, 8, 4, 33, 1, 20}, Sizes{20, 2, 1, 5, 65, 20}})
        expect_reference_bytes(reference_case(problem_of(sizes), CaseKind::spread, 12, contract()), {1, 3});
}

// Rows of several blocks; heads one by one and several per thread; either length longer, by more than a block.
TEST_P(EachKernel, TakesTheCausalMask) {
    for (const Sizes& sizes : {Sizes{1, 1, 1, 450, 450, 20}, Sizes{1, 4, 2, 70, 300, 20}, Sizes{2, 2, 1, 300, 70, 20},
                               Sizes{1, 1, 1, 220, 1100, 20}, Sizes{60, 2, 1, 40, 40, 20}})
        expect_reference_bytes(reference_case(problem_of(sizes, Mask::causal), CaseKind::spread, 12, contract()),
                               {1, 3, 16});
}

// With the causal mask the last rows have the most work: the last thread to start has little left to do.
TEST_P(EachKernel, TakesTheLastRowsFirstUnderAMask) {
    const int64_t rows = GetParam().blocks->block_rows;
    Problem problem(1, 2 * rows + 3, 4);
    problem.mask = Mask::causal;
    const std::vector<float> in(problem.batch_input_floats(), 1.0f);
    std::vector<float> out(problem.batch_output_floats());
    const auto scratch = lines_of(plan_of(GetParam(), problem, 1).scratch_bytes);
    Launch launch = launch_of(problem, in.data(), out.data(), scratch.get(), 1);
    std::vector<int64_t> done;
    launch.done = [&](int64_t count) { done.push_back(count); };
    GetParam().launch(launch);
    EXPECT_EQ(done, (std::vector<int64_t>{3, rows, rows}));
}

// Few rows against many keys, which the threads divide: full and ragged parts, one group and several, references that
// rise early, late and everywhere, low first tiles, windows.
TEST_P(EachFloatKernel, DividesTheKeysOfFewRows) {
    std::vector<Distribution> kinds(std::begin(kAllKinds), std::end(kAllKinds));
    for (const Distribution& timed : timed_distributions()) kinds.push_back(timed);
    for (const Sizes& sizes : {Sizes{1, 1, 1, 1, 1025, 20}, Sizes{1, 2, 1, 5, 1700, 20}, Sizes{2, 1, 1, 16, 513, 20},
                               Sizes{1, 1, 1, 13, 1200, 20}})
        for (const Mask mask : kEveryMask)
            for (const Distribution& values : kinds) {
                Problem problem = problem_of(sizes, mask);
                expect_reference_bytes(reference_case(problem, values, 12, contract()), {16});
                if (mask == Mask::none) continue;
                problem.window = 700;
                expect_reference_bytes(reference_case(problem, values, 13, contract()), {16});
            }
}

TEST_P(EachKernel, TakesLargeDimensions) {
    const int64_t dim = &contract() == &kF32 ? 1000 : fixed::kMostColumns;
    expect_reference_bytes({{1, 40, dim}, CaseKind::uniform, 2, contract()}, {1});
}

// Kernels that pack do so in several stretches; three tiles of keys, the last of which is its own segment.
TEST_P(EachFloatKernel, TakesRowsOfAnyLength) {
    for (const int64_t keys : {1, 66})
        expect_reference_bytes({Problem(1, 3, (1 << 16) + 37).of_keys(keys), CaseKind::spread, 7}, {2});
}

// From the next tile on, keys that no row of a block sees are not even read.
TEST_P(EachFloatKernel, ReadsNoTileBeyondTheKeysThatItsRowsSee) {
    constexpr int64_t kRows = 8;
    constexpr int64_t kKeys = 5 * kKeyTile;
    constexpr int64_t kDim = 4;
    const BlockKernel& kernel = *GetParam().blocks;
    const auto workspace = lines_of(kernel.workspace_floats(kRows, kDim) * sizeof(float));
    for (const int64_t seen : {kRows, int64_t{kKeyTile - 1}, int64_t{kKeyTile}, int64_t{2 * kKeyTile + 1}}) {
        const int64_t read = (seen + kKeyTile - 1) / kKeyTile * kKeyTile;
        std::vector<float> rows(static_cast<size_t>(kKeys * kDim), 1.0f);
        std::fill(rows.begin() + read * kDim, rows.end(), NAN);
        std::vector<float> out(static_cast<size_t>(kRows * kDim), NAN);
        kernel.attend({rows.data(), rows.data(), rows.data(), out.data(), kRows, kKeys, kDim, scale_for(kDim), nullptr,
                       seen - kRows + 1},
                      static_cast<float*>(workspace.get()));
        EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); })) << seen;
    }
}

// One batch of one row of ten million columns is a file of 120 MB: its workspace must not be that of a whole block.
TEST_P(EachFloatKernel, TakesTheWorkspaceOfAFewLongRows) {
    EXPECT_LT(GetParam().blocks->workspace_floats(1, 10'000'000) * sizeof(float), size_t{4'000'000'000});
}

// Blocks of fewer rows than the kernel could take, with marks behind the end of the workspace.
TEST_P(EachKernel, KeepsToTheWorkspaceOfItsRows) {
    constexpr uint32_t kUntouched = 0x7fda5a5a; // no number
    constexpr size_t kBeyond = 4096;
    const AttentionCase& test = reference_case({1, 70, 33}, CaseKind::uniform, 9, contract());
    const int64_t dim = test.problem.dim;
    const float* q = test.qkv.data();
    const float* k = q + test.problem.batch_output_floats();
    const float* v = k + test.problem.batch_output_floats();
    const BlockKernel& kernel = *GetParam().blocks;
    const size_t bytes = kernel.prepare == nullptr ? 0 : kernel.prepared_bytes(test.problem.queries, dim);
    const auto prepared = lines_of(bytes);
    std::memset(prepared.get(), 0xff, bytes);
    if (kernel.prepare != nullptr)
        kernel.prepare({k, v, test.problem.queries, dim, 0, kernel.tiles_of(test.problem.queries)}, prepared.get());
    size_t before = 0;
    for (const int64_t rows : {1, 5, 30}) {
        const size_t floats = kernel.workspace_floats(rows, dim);
        EXPECT_GE(floats, before) << rows;
        EXPECT_LE(floats, kernel.workspace_floats(kernel.block_rows, dim)) << rows;
        before = floats;
        const auto workspace = lines_of((floats + kBeyond) * sizeof(float));
        auto* const numbers = static_cast<float*>(workspace.get());
        std::fill(numbers, numbers + floats + kBeyond, float_of(kUntouched));
        std::vector<float> out(static_cast<size_t>(rows * dim), NAN);
        kernel.attend({q, k, v, out.data(), rows, test.problem.queries, dim, scale_for(dim), prepared.get()}, numbers);
        EXPECT_TRUE(same_bytes({test.expected.begin(), test.expected.begin() + rows * dim}, out)) << rows;
        EXPECT_TRUE(std::all_of(numbers + floats, numbers + floats + kBeyond, [](float x) {
            return bits_of(x) == kUntouched;
        })) << rows;
    }
}

TEST_P(EachKernel, TreatsNegativeZerosAsTheReferenceDoes) {
    expect_reference_bytes(AttentionCase::with_negative_zeros(contract()), {1});
}

// Kernels of other contracts compute f32 on rounded numbers (half_test.cpp).
std::vector<Kernel> kernels_by_bytes() {
    std::vector<Kernel> list;
    for (const Kernel& kernel : cpu_kernels_of(kForward))
        if (kernel.under->compared == Compared::bytes) list.push_back(kernel);
    return list;
}

std::string name_of_instance(const testing::TestParamInfo<Kernel>& instance) { return instance.param.name; }

INSTANTIATE_TEST_SUITE_P(Cpu, EachKernel, testing::ValuesIn(kernels_by_bytes()), name_of_instance);
INSTANTIATE_TEST_SUITE_P(Cpu, EachFloatKernel, testing::ValuesIn(cpu_kernels_of(kForward, &kF32)), name_of_instance);

// While an object exists, no thread can start: no address space can hold its stack.
class NoNewThreads {
public:
    NoNewThreads() {
        pthread_attr_init(&before_);
        EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
        pthread_attr_t boundless;
        pthread_attr_init(&boundless);
        EXPECT_EQ(pthread_attr_setstacksize(&boundless, size_t{1} << 60), 0);
        EXPECT_EQ(pthread_setattr_default_np(&boundless), 0);
        pthread_attr_destroy(&boundless);
    }
    NoNewThreads(const NoNewThreads&) = delete;
    NoNewThreads& operator=(const NoNewThreads&) = delete;
    ~NoNewThreads() {
        pthread_setattr_default_np(&before_);
        pthread_attr_destroy(&before_);
    }

private:
    pthread_attr_t before_;
};

TEST(OnThreads, RunsTheWorkOnceOnEach) {
    for (const int threads : {1, 2, 5}) {
        std::mutex mutex;
        std::multiset<std::thread::id> seen;
        on_threads(threads, [&] {
            const std::lock_guard<std::mutex> lock(mutex);
            seen.insert(std::this_thread::get_id());
        });
        EXPECT_EQ(seen.size(), static_cast<size_t>(threads));
        EXPECT_EQ(seen.count(std::this_thread::get_id()), 1u);
    }
}

TEST(AvailableProcessors, AreThoseThatThisProcessMayRunOn) {
    std::thread([] { // the limits are per thread
        cpu_set_t before;
        ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
        EXPECT_EQ(available_processors(), CPU_COUNT(&before));
        cpu_set_t one;
        CPU_ZERO(&one);
        for (size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
            if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
        ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
        EXPECT_EQ(available_processors(), 1);
    })
        .join();
}

TEST(OnThreads, DoesAllTheWorkOnTheThreadsThatCanBeStarted) {
    for (const Contract* contract : contracts()) {
        const AttentionCase test({3, 450, 8}, CaseKind::uniform, 6, *contract);
        const NoNewThreads none;
        ASSERT_THROW(std::thread([] {}).join(), std::system_error);
        const std::string name = kernel_like_reference(*contract);
        const Kernel& kernel = choose_kernel(name, test.problem, *contract);
        EXPECT_TRUE(same_bytes(test.expected, attend(kernel, test, 4))) << contract->name;
    }
}

// One chunk is written while the next is computed, unless two such large chunks would take too much memory.
TEST(CpuSlots, AreTwoUnlessAChunkIsLargeOrAlone) {
    const auto slots = [](const Problem& problem, int64_t chunk_batches) {
        EngineRequest request;
        request.problem = problem;
        request.options.chunk_batches = chunk_batches;
        return make_engine(request)->slots();
    };
    constexpr int64_t kMost = (int64_t{64} << 20) / 12; // floats of a matrix
    EXPECT_EQ(slots({2, kMost, 1}, 1), 2);
    EXPECT_EQ(slots({2, kMost + 1, 1}, 1), 1);
    EXPECT_EQ(slots({3, kMost / 2, 1}, 2), 2);
    EXPECT_EQ(slots({3, kMost / 2 + 1, 1}, 2), 1);
    EXPECT_EQ(slots({2, 8, 8}, 2), 1) << "there is no second chunk";
}

// Slots move, and so must be free, where the case does not fit into them or where their number changes.
TEST(CpuEngine, KeepsItsMemoryFromCaseToCase) {
    EngineRequest request;
    request.problem = {4, 30, 8};
    request.more_follow = true;
    const std::unique_ptr<Engine> engine = make_engine(request);
    EXPECT_EQ(engine->slots(), 2) << "cases follow";
    const auto moves = [&](const Problem& problem) {
        int waits = 0;
        engine->begin("b.in", problem, [&] { ++waits; });
        return waits;
    };
    EXPECT_EQ(moves({4, 30, 8}), 0);
    EXPECT_EQ(moves({2, 3, 20}), 0);
    EXPECT_EQ(moves({4, 31, 8}), 1);
    EXPECT_EQ(moves({4, 30, 8}), 0);
    EXPECT_EQ(moves({1, (64 << 20) / 12 + 1, 1}), 1) << "one large slot";
    EXPECT_EQ(engine->slots(), 1);
    EXPECT_EQ(moves({4, 30, 8}), 1);
    EXPECT_EQ(engine->slots(), 2);
    EXPECT_EQ(moves({4, 31, 8}), 0) << "it was there before";
}

TEST(CpuEngine, BeginsAnotherCaseAfterOneThatNoKernelTakes) {
    EngineRequest request;
    request.problem = {1, 4, 8};
    request.options.contract = &kFixed;
    request.more_follow = true;
    const std::unique_ptr<Engine> engine = make_engine(request);
    EXPECT_EQ(failure_of([&] { engine->begin("backward.in", Problem(1, 4, 8).of_operation(kBackward), [] {}); }),
              (Failure{ExitCode::bad_data, "backward.in: no CPU kernel computes backward under fixed for this case"}));
    engine->begin("b.in", {3, 5, 8}, [] {});
    EXPECT_EQ(engine->facts().chunk_batches, 3);
}

constexpr Problem kAny = {1, 1, 1};

Problem any_of(const Operation& operation) {
    Problem problem = kAny;
    problem.operation = &operation;
    return problem;
}

TEST(ChooseCpuKernel, TakesTheLastOfTheContractThatThisProcessorHas) {
    for (const Contract* contract : contracts())
        for (const Computed& computed : contract->computes) {
            const Operation* operation = computed.operation;
            const Kernel* best = &choose_kernel("", any_of(*operation), *contract);
            EXPECT_TRUE(best->needs.processor());
            EXPECT_EQ(best->under, contract);
            EXPECT_EQ(best->does, operation);
            for (const Kernel* later = best + 1; later != kernels().data() + kernels().size(); ++later)
                EXPECT_FALSE(later->needs.processor() && later->under == contract && later->does == operation)
                    << later->name;
        }
}

void expect_refusal(const std::string& name, const Contract& contract, const std::string& reason) {
    const Failure failure = failure_of([&] { choose_kernel(name, kAny, contract); });
    EXPECT_EQ(failure.code, ExitCode::usage);
    EXPECT_NE(failure.message.find(reason), std::string::npos) << failure.message;
}

TEST(ChooseCpuKernel, RefusesOneOfAnotherContract) {
    expect_refusal("generic", kFixed, "kernel 'generic' computes f32, not fixed");
    expect_refusal("fixed_generic", kF32, "kernel 'fixed_generic' computes fixed, not f32");
}

TEST(ChooseCpuKernel, FindsEachByNameAndRefusesOthers) {
    for (const Kernel& kernel : kernels()) {
        if (kernel.needs.processor())
            EXPECT_EQ(&choose_kernel(kernel.name, any_of(*kernel.does), *kernel.under), &kernel);
        else
            expect_refusal(kernel.name, *kernel.under, "this processor does not support it");
    }
    expect_refusal("mmx", kF32, "generic"); // the message lists existing kernels
}

} // namespace
} // namespace hw4::cpu
