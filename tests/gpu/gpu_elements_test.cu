// Files whose numbers are stored as bf16 or fp16, by the GPU engine: what it gives is what it gives for the same
// numbers as float32, rounded; and it copies no more than the files have.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "src/gpu/engine.h"
#include "src/gpu/kernels.h"
#include "src/run/pipeline.h"
#include "tests/support/attention_case.h"
#include "tests/support/need_gpu.h"
#include "tests/support/temporary_folder.h"

namespace hw4::gpu {
namespace {

using hw4::test::read_file;
using hw4::test::write_file;

class StoredElementOnGpu : public testing::TestWithParam<Element> {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }

    static std::string stored(Element element, const std::vector<float>& values) {
        std::string bytes(values.size() * bytes_of(element), '\0');
        narrow(element, values.data(), values.size(), bytes.data());
        return bytes;
    }

    // The numbers of a file with such elements, which are of the type in either case; and of that of logsumexps, where
    // there is one.
    struct Outputs {
        std::string rows;
        std::string lse;
    };
    Outputs outputs(Problem problem, Element element, const std::vector<float>& values, const EngineOptions& options) {
        problem.element = element;
        const Bytes header = header_of(problem);
        write_file(folder_ / "a.in", std::string(header.begin(), header.end()) + stored(element, values));
        CaseReader input(folder_ / "a.in");
        OutputFile output(folder_ / "a.out", interrupts_);
        OutputFile lse(folder_ / "a.lse", interrupts_);
        const bool has_lse = why_no_statistics(*options.contract, problem).empty();
        Timeline timeline;
        run_pipeline(input, output, options, {}, make_engine, &timeline, nullptr, {has_lse ? &lse : nullptr, nullptr});
        output.commit(false);
        if (has_lse) lse.commit(false);
        const TimelineSummary stages = summarise(timeline.spans());
        EXPECT_EQ(stages[Stage::copy_in].bytes, problem.stored_input_bytes());
        return {read_file(folder_ / "a.out"), has_lse ? read_file(folder_ / "a.lse") : ""};
    }

    // Rounded as the files of the type are.
    static std::string rounded(const std::string& floats) {
        std::vector<float> values(floats.size() / sizeof(float));
        std::memcpy(values.data(), floats.data(), floats.size());
        return stored(GetParam(), values);
    }

    // Nothing where the kernel cannot take the problem, or the contract not the type.
    void expect_the_same(const Problem& problem, const KernelInfo& kernel, EngineOptions options) {
        Problem narrow_problem = problem;
        narrow_problem.element = GetParam();
        options.contract = kernel.under;
        options.kernel = kernel.name;
        if (!unsupported_reason(problem, kernel.name, *kernel.under).empty()) return;
        if (!why_not(*kernel.under, narrow_problem).empty()) return;
        std::vector<float> values(problem.floats_in(problem.input_rows()));
        fill_case_values({problem, CaseKind::uniform, 8}, 0, values.size(), values.data());
        round_all(GetParam(), values.data(), values.size(), values.data());
        const Outputs wanted = outputs(problem, Element::float32, values, options);
        const Outputs got = outputs(problem, GetParam(), values, options);
        ++compared_;
        EXPECT_TRUE(got.rows == rounded(wanted.rows)) << kernel.name << ", d = " << problem.dim;
        EXPECT_TRUE(got.lse == wanted.lse) << kernel.name << ", d = " << problem.dim;
    }

    int compared_ = 0;
    InterruptGuard interrupts_;
    hw4::test::TemporaryFolder folder_;
};

// Chunks of two batches, the last one short, by every kernel.
TEST_P(StoredElementOnGpu, IsTakenByEveryKernel) {
    for (const KernelInfo& kernel : kernel_list())
        for (const int64_t dim : {1, 37, 64, 100, 128})
            for (const Copies copies : {Copies::two_d, Copies::linear}) {
                Problem problem{5, 133, dim};
                problem.operation = kernel.does;
                EngineOptions options;
                options.copies = copies;
                options.streams = 2;
                options.chunk_batches = 2;
                expect_the_same(problem, kernel, options);
            }
    EXPECT_GT(compared_, 0);
}

// Three slices of a batch on two streams, the last one short; the third batch comes into a slot whose slices were
// computed in both.
TEST_P(StoredElementOnGpu, IsTakenInSlices) {
    for (const KernelInfo& kernel : kernel_list())
        for (const int64_t dim : {64, 37}) {
            if (kernel.does != &kForward) continue;
            EngineOptions options;
            options.streams = 2;
            options.chunk_batches = 1;
            options.queries_at_once = 1000; // rounded up to 1024
            expect_the_same({3, 2500, dim}, kernel, options);
        }
    EXPECT_GT(compared_, 0);
}

// Heads that share keys, under the mask, by the kernels that hw4 chooses.
TEST_P(StoredElementOnGpu, IsTakenOfHeadsUnderTheMask) {
    for (const Contract* contract : contracts()) {
        Problem problem{3, 70, 64};
        problem.heads = 4;
        problem.kv_heads = 2;
        problem.keys = 131;
        problem.mask = Mask::causal;
        const Kernel* const chosen = choose_kernel(problem, current_device(), *contract);
        if (chosen == nullptr) continue;
        expect_the_same(problem, {chosen->name, chosen->idea, chosen->does, chosen->under, ""}, {});
    }
    EXPECT_GT(compared_, 0);
}

INSTANTIATE_TEST_SUITE_P(Types, StoredElementOnGpu, testing::Values(Element::bf16, Element::fp16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

} // namespace
} // namespace hw4::gpu
