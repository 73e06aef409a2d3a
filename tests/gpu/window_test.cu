// Windows in every GPU kernel that takes them.
#include "tests/support/window.h"

#include "tests/support/each_kernel.h"
#include "tests/support/gpu_subjects.h"

namespace hw4 {
namespace {

std::vector<gpu::Kernel> kernels_with_windows() {
    std::vector<gpu::Kernel> list;
    for (const gpu::Kernel& kernel : gpu::kernels())
        if (kernel.needs.windows) list.push_back(kernel);
    return list;
}

std::vector<Subject> subjects_with_windows() {
    std::vector<Subject> list;
    for (const gpu::Kernel& kernel : kernels_with_windows()) list.push_back(gpu::gpu_subject(kernel));
    return list;
}

INSTANTIATE_TEST_SUITE_P(Gpu, Window, testing::ValuesIn(subjects_with_windows()), name_of_instance);

} // namespace
} // namespace hw4

namespace hw4::gpu {
namespace {

TEST(WindowChoice, IsAmongTheKernelsThatTakeWindows) {
    const Device h200{90, 232448, 132, 90};
    const auto chosen = [&](const Problem& problem) -> std::string { return choose_kernel(problem, h200, kF32)->name; };
    EXPECT_EQ(chosen(with_window(causal_problem(4096, 4096, 64), 512)), "drawn_tiles");
    EXPECT_EQ(chosen(with_window(causal_problem(1, 4096, 64), 512)), "split_keys");
    for (const Kernel& kernel : kernels_of(kF32)) {
        const std::string why_not = plan_of(kernel, with_window(causal_problem(8, 8, 32), 3), h200).why_not;
        const bool takes = why_not.empty();
        EXPECT_EQ(takes, kernel.needs.windows) << why_not;
    }
    EXPECT_EQ(plan_of(*find_kernel("register_rows"), with_window(causal_problem(8, 8, 32), 3), h200).why_not,
              "kernel register_rows takes no window");
}

// The output must have the bytes of the contract's reference, which computes row by row.
class EachKernelWithAWindow : public KernelTest {
protected:
    EachKernelWithAWindow() : KernelTest(Mask::causal) {}

    static const AttentionCase& case_of(const Problem& problem, const Distribution& values) {
        return reference_case(problem, values, 5, *GetParam().under);
    }
};

// Every tiling, whole rows and rows in part.
TEST_P(EachKernelWithAWindow, GivesTheReferenceBytes) {
    size_t turn = 0; // the pairs of kinds change from each to the next: there are odd numbers of keys, windows and dims
    for (const int64_t dim : {1, 32, 33, 64, 100, 128, 256})
        for (const int64_t window : {1, 33, 64, 150, 1000}) {
            for (const int64_t keys : {130, 70, 400})
                for (const CaseKind kind : some_of_four(turn++))
                    expect_statistics_too(with_window(with_heads(causal_problem(130, keys, dim), 2, 2, 1), window),
                                          kind);
            expect_statistics_too(with_window(with_heads(causal_problem(3, 900, dim), 2, 4, 2), window),
                                  CaseKind::spread);
        }
}

// Large blocks, and units that several blocks share.
TEST_P(EachKernelWithAWindow, GivesTheReferenceBytesWhenTheCardIsFull) {
    const int64_t batches = current_device().multiprocessors / 4;
    for (const int64_t dim : {32, 64, 128})
        for (const int64_t window : {100, 300})
            for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread}) {
                expect_statistics_too(with_window(with_heads(causal_problem(520, 520, dim), 2 * batches, 1, 1), window),
                                      kind);
                expect_statistics_too(with_window(with_heads(causal_problem(1, 2000, dim), batches, 8, 2), window),
                                      kind);
            }
}

TEST_P(EachKernelWithAWindow, GivesTheReferenceBytesOfSomeQueriesOfEveryHead) {
    for (const int64_t dim : {32, 64, 128})
        for (const int64_t keys : {kQueryStep + 70, kQueryStep + 171, int64_t{100}}) {
            const Problem problem = with_window(with_heads(causal_problem(kQueryStep + 70, keys, dim), 2, 2, 1), 90);
            expect_reference_bytes(case_of(problem, CaseKind::uniform), in_query_steps(GetParam()));
        }
}

// For compute-sanitizer (make gpu-check).
TEST_P(EachKernelWithAWindow, SanitizerShapes) {
    for (const int64_t dim : {32, 64, 128, 37})
        for (const Problem& problem : {causal_problem(66, 66, dim), causal_problem(2, 300, dim)})
            expect_reference_bytes(with_window(problem, 40), CaseKind::uniform);
}

INSTANTIATE_TEST_SUITE_P(Every, EachKernelWithAWindow, testing::ValuesIn(kernels_with_windows()), kernel_of_instance);

} // namespace
} // namespace hw4::gpu
