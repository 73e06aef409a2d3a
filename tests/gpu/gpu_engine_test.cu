// The GPU engine from file to file, and the memory and copies that it uses.
#include "src/gpu/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "src/base/error.h"
#include "src/gpu/device/memory.h"
#include "src/gpu/kernels.h"
#include "src/run/pipeline.h"
#include "tests/support/file_to_file.h"
#include "tests/support/long_sequence.h"
#include "tests/support/need_gpu.h"
#include "tests/support/pitched_matrix.h"
#include "tests/support/problems.h"
#include "tests/support/subject.h"

namespace hw4::gpu {
namespace {

// Computes the case from file to file and compares with the reference's bytes, also of logsumexps that are given.
EngineFacts run_file(const TemporaryFolder& folder, const AttentionCase& test, const EngineOptions& options,
                     const std::string& what = "", const std::vector<float>* logsumexps = nullptr) {
    write_file(folder / "a.in", file_of(test.problem, test.qkv));
    InterruptGuard interrupts;
    CaseReader input(folder / "a.in");
    OutputFile output(folder / "a.out", interrupts);
    OutputFile lse(folder / "a.lse", interrupts);
    Timeline timeline;
    const EngineFacts report =
        run_case({input, output, options, {}, always(make_engine), &timeline, logsumexps ? &lse : nullptr}).engine;
    const TimelineSummary stages = summarise(timeline.spans());
    for (const Stage stage : {Stage::read, Stage::copy_in, Stage::kernel, Stage::copy_out, Stage::write})
        EXPECT_GT(stages[stage].seconds, 0.0) << name_of(stage);
    EXPECT_EQ(stages[Stage::copy_in].bytes, test.problem.input_bytes());
    const size_t of_rows = logsumexps == nullptr ? 0 : logsumexps->size() * sizeof(RowStatistics);
    EXPECT_EQ(stages[Stage::copy_out].bytes, test.problem.output_bytes() + of_rows);
    output.commit(false);
    EXPECT_TRUE(read_file(folder / "a.out") == hw4::bytes_of(test.expected.data(), test.expected.size()))
        << test.name << ", " << what;
    if (logsumexps == nullptr) return report;
    lse.commit(false);
    EXPECT_TRUE(read_file(folder / "a.lse") == hw4::bytes_of(logsumexps->data(), logsumexps->size())) << test.name;
    return report;
}

EngineOptions options_of(const Contract& contract, const std::string& kernel, int streams, int64_t chunk_batches,
                         Copies copies = Copies::two_d) {
    EngineOptions options;
    options.contract = &contract;
    options.kernel = kernel;
    options.streams = streams;
    options.chunk_batches = chunk_batches;
    options.copies = copies;
    return options;
}

// Three slices of a batch on two streams, the last one short, in every forward kernel; the third batch comes into a
// slot whose slices were computed in both streams.
TEST(GpuEngine, GivesTheReferenceBytesOfABatchInSlices) {
    HW4_SKIP_WITHOUT_GPU();
    const TemporaryFolder folder;
    for (const int64_t dim : {64, 37}) {
        for (const KernelInfo& kernel : kernel_list()) {
            if (kernel.under->compared != Compared::bytes) continue; // half precision has its own tests
            const AttentionCase& test = reference_case({3, 2500, dim}, CaseKind::uniform, 9, *kernel.under);
            if (!unsupported_reason(test.problem, kernel.name, *kernel.under).empty()) continue; // also backward
            EngineOptions options = options_of(*kernel.under, kernel.name, 2, 1);
            options.queries_at_once = 1000; // rounded up to 1024
            EXPECT_EQ(run_file(folder, test, options, kernel.name).queries_at_once, 1024);
        }
    }
}

// Any number of chunks and streams; with the scratch memory that makes kernels fastest, with some of it, and with only
// the least.
TEST(GpuEngine, GivesTheReferenceBytesOfBackward) {
    HW4_SKIP_WITHOUT_GPU();
    const TemporaryFolder folder;
    for (Problem problem : {Problem{11, 133, 64}, Problem{2, 700, 37}}) {
        problem.operation = &kBackward;
        const AttentionCase& test = reference_case(problem, CaseKind::spread, 9);
        for (const int streams : {1, 3})
            for (const int64_t chunk : {0, 2})
                for (const size_t budget : {size_t{0}, size_t{3} << 20, size_t{4} << 30}) {
                    EngineOptions options = options_of(kF32, "", streams, chunk);
                    options.scratch_budget = budget;
                    run_file(folder, test, options,
                             std::to_string(streams) + " streams, " + std::to_string(chunk) + " batches, " +
                                 std::to_string(budget) + " bytes");
                }
    }
}

// The logsumexps of all rows: chunks that reuse slots, packed rows whose statistics start anywhere, and slices of a
// batch.
TEST(GpuEngine, GivesTheLogsumexpsOfTheReference) {
    HW4_SKIP_WITHOUT_GPU();
    const TemporaryFolder folder;
    struct Cut {
        Problem problem;
        int64_t chunk_batches, queries_at_once;
    };
    for (const Cut& cut : {Cut{{11, 133, 64}, 2, 0}, Cut{{5, 133, 33}, 1, 0}, Cut{{3, 2500, 64}, 1, 1024}})
        for (const Contract* contract : contracts_by_bytes())
            for (const Copies copies : {Copies::two_d, Copies::linear}) {
                const AttentionCase& test = reference_case(cut.problem, CaseKind::spread, 9, *contract);
                if (!unsupported_reason(test.problem, "", *contract).empty()) continue;
                EngineOptions options = options_of(*contract, "", 2, cut.chunk_batches, copies);
                options.queries_at_once = cut.queries_at_once;
                std::vector<float> expected(test.statistics.size());
                logsumexps(*contract, test.problem, test.statistics.data(), test.problem.output_rows(),
                           expected.data());
                run_file(folder, test, options, name_of(copies), &expected);
            }
}

// Small enough for compute-sanitizer (make gpu-check): five chunks through two slots, the last one short.
TEST(GpuEngine, SanitizerRun) {
    HW4_SKIP_WITHOUT_GPU();
    const TemporaryFolder folder;
    for (const Copies copies : {Copies::two_d, Copies::linear})
        for (const int64_t dim : {64, 37}) {
            const AttentionCase test({9, 133, dim}, CaseKind::uniform, 9);
            const EngineOptions options = options_of(kF32, "", 2, 2, copies);
            const EngineFacts report = run_file(folder, test, options, name_of(copies));
            EXPECT_EQ(report.streams, 2);
            EXPECT_EQ(report.copies, name_of(copies));
            EXPECT_EQ(report.chunk_batches, 2);
            const AttentionCase& backward = reference_case(backward_of({5, 1, 1, 70, 70, dim}), CaseKind::uniform, 9);
            run_file(folder, backward, options, name_of(copies));
        }
}

size_t free_device_bytes() {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    HW4_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    return free_bytes;
}

// Another process may free GPU memory at any time, so each run is compared with the free memory before or after it.
TEST(GpuEngine, MakesDoWithLittleMemory) {
    HW4_SKIP_WITHOUT_GPU();
    const TemporaryFolder folder;
    const AttentionCase tests[] = {
        {{160, 128, 256}, CaseKind::uniform, 9},                        // four slots, 42 MiB together
        {backward_of({1, 1, 1, 5000, 1000, 8}), CaseKind::uniform, 9}}; // P and dS take 42 MB where all are kept
    EngineFacts usual[2];
    for (int i = 0; i < 2; ++i) usual[i] = run_file(folder, tests[i], {});

    // Less than either takes, and more than the least: 29 MB, streams, and CUDA's rounding. Freed at the end.
    const Scratch taken = make_scratch(free_device_bytes() - (size_t{38} << 20));
    for (int i = 0; i < 2; ++i) {
        const size_t before = free_device_bytes();
        const EngineFacts report = run_file(folder, tests[i], {});
        const size_t free_bytes = std::max(before, free_device_bytes());
        EXPECT_LE(report.device_bytes, free_bytes) << i;
        if (free_bytes < usual[i].device_bytes) EXPECT_LT(report.device_bytes, usual[i].device_bytes) << i;
        if (i == 0 && free_bytes < usual[i].device_bytes)
            EXPECT_LT(report.chunk_batches * report.streams, usual[i].chunk_batches * usual[i].streams);
    }
}

TEST(GpuEngine, BadDataInALaterChunkFailsCleanly) {
    HW4_SKIP_WITHOUT_GPU();
    const TemporaryFolder folder;
    AttentionCase test({275, 128, 256}, CaseKind::uniform, 9);
    test.qkv[test.qkv.size() - 1] = HUGE_VALF;
    write_file(folder / "a.in", file_of(test.problem, test.qkv));
    {
        InterruptGuard interrupts;
        CaseReader input(folder / "a.in");
        OutputFile output(folder / "a.out", interrupts);
        const Failure failure = failure_of([&] { run_case({input, output, {}, {}, always(make_engine)}); });
        EXPECT_EQ(failure.code, ExitCode::bad_data);
        EXPECT_NE(failure.message.find("batch 274, V, row 127, column 255"), std::string::npos) << failure.message;
    }
    EXPECT_EQ(folder.names(), std::vector<std::string>{"a.in"});
}

TEST(GpuEngine, SaysWhichShapesItCannotTake) {
    HW4_SKIP_WITHOUT_GPU();
    EXPECT_EQ(unsupported_reason({1, 1, 256}, "", kF32), "");
    EXPECT_NE(unsupported_reason({1, 1, 257}, "", kF32).find("takes d up to 256, this case has 257"),
              std::string::npos);
    EXPECT_EQ(unsupported_reason(Problem(1, 1, 64).of_operation(kBackward), "", kFixed),
              "no GPU kernel of this build computes fixed backward");
    EXPECT_EQ(unsupported_reason({1, 1, 64}, "fastest", kF32), "there is no kernel 'fastest'");
}

TEST(GpuEngine, RefusesAKernelOfAnotherContract) {
    HW4_SKIP_WITHOUT_GPU();
    const TemporaryFolder folder;
    const AttentionCase& test = reference_case({1, 3, 4}, CaseKind::uniform, 9, kFixed);
    const Failure failure = failure_of([&] { run_file(folder, test, options_of(kFixed, "plain_rows", 4, 0)); });
    EXPECT_EQ(failure, (Failure{ExitCode::usage, "kernel 'plain_rows' computes f32, not fixed"}));
}

struct CountRelease {
    void operator()(int* released) const noexcept { ++*released; }
};

TEST(OwnerTest, ReleasesExactlyOnceWhateverMoves) {
    int released = 0;
    {
        Owner<int*, CountRelease> a(&released);
        Owner<int*, CountRelease> b(std::move(a));
        EXPECT_EQ(a.get(), nullptr);
        Owner<int*, CountRelease> c;
        c = std::move(b);
        EXPECT_EQ(c.get(), &released);
        EXPECT_EQ(released, 0);
    }
    EXPECT_EQ(released, 1);
}

TEST(CheckTest, TurnsErrorsIntoExitCodes) {
    EXPECT_EQ(exit_code_of(cudaErrorMemoryAllocation), ExitCode::out_of_memory);
    EXPECT_EQ(exit_code_of(cudaErrorNoDevice), ExitCode::no_gpu);
    EXPECT_EQ(exit_code_of(cudaErrorNoKernelImageForDevice), ExitCode::no_gpu);
    EXPECT_EQ(exit_code_of(cudaErrorIllegalAddress), ExitCode::internal);
    EXPECT_NO_THROW(HW4_CUDA(cudaSuccess));
    try {
        HW4_CUDA(cudaErrorIllegalAddress);
        FAIL() << "an error passed";
    } catch (const Error& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("cudaErrorIllegalAddress"), std::string::npos) << message;
        EXPECT_NE(message.find("gpu_engine_test.cu:"), std::string::npos) << message;
    }
}

TEST(PitchedMatrixTest, CopiesRowsBothWays) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Copies copies : {Copies::two_d, Copies::linear})
        for (const size_t columns : {size_t{1}, size_t{7}, size_t{32}, size_t{33}, size_t{256}}) {
            const size_t rows = 50;
            const Stream stream = make_stream();
            PitchedMatrix matrix(rows, columns, copies);
            EXPECT_GE(matrix.stride(), columns);
            std::vector<float> in(rows * columns);
            std::vector<float> out(rows * columns);
            const Pinned in_place = pin(in.data(), in.size() * sizeof(float));
            std::iota(in.begin(), in.end(), 1.0f);
            // Copies the later rows first.
            matrix.copy_in(in.data() + 20 * columns, rows - 20, stream.get(), 20);
            matrix.copy_in(in.data(), 20, stream.get());
            matrix.copy_out(out.data(), 30, stream.get());
            matrix.copy_out(out.data() + 30 * columns, rows - 30, stream.get(), 30);
            HW4_CUDA(cudaStreamSynchronize(stream.get()));
            EXPECT_EQ(in, out) << name_of(copies) << columns;
        }
}

} // namespace
} // namespace hw4::gpu
