// Windows and the causal mask in every GPU kernel that takes them.
#include "tests/support/window.h"

#include <map>
#include <vector>

#include "tests/support/each_kernel.h"
#include "tests/support/gpu_subjects.h"
#include "tests/support/mixed_rows.h"
#include "tests/support/problems.h"
#include "tests/support/scattered.h"

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
class CausalTest : public KernelTest {
protected:
    CausalTest() : KernelTest(Mask::causal) {}

    static const AttentionCase& case_of(const Problem& problem, const Distribution& values) {
        return reference_case(problem, values, 5, *GetParam().under);
    }
};

class EachKernelWithAWindow : public CausalTest {};

// Every tiling, whole rows and rows in part.
TEST_P(EachKernelWithAWindow, GivesTheReferenceBytes) {
    size_t turn = 0; // the kind changes from each to the next: there are odd numbers of keys, windows and dims
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

// Many blocks, and units that several blocks share.
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

// ---- The causal mask alone

constexpr int64_t kDims[] = {1, 32, 33, 64, 100, 128, 256}; // every row size of the kernels, full and partial

class EachKernelUnderTheMask : public CausalTest {};

// Ordinary rows, rows that are computed again or have another M, and some rows with an origin, by turns, which differ
// between full and between partial rows of different sizes.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytes) {
    size_t turn = 0;
    for (const int64_t dim : kDims) {
        for (const int64_t n : {1, 31, 33, 63, 64, 65, 127, 129, 200, 1000})
            expect_reference_bytes(causal_problem(n, n, dim), turn++ % 2 == 0 ? CaseKind::uniform : CaseKind::spread);
        for (const int64_t keys : {130, 70, 200})
            for (const CaseKind kind : some_of_four(turn++))
                expect_statistics_too(with_heads(causal_problem(130, keys, dim), 2, 1, 1), kind);
        turn += dim % 32 == 0 ? 0 : 1;
    }
}

// The diagonal at every place of a tile; full tiles and blocks of rows on either side of it. By turns the queries or
// the keys are more: for each number of rows and difference both, in different dims.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesWhereOneLengthIsLonger) {
    size_t turn = 0;
    for (const int64_t dim : kDims) {
        for (const int64_t more : {1, 31, 63, 64, 65, 100})
            for (const int64_t n : {1, 70, 129}) {
                const bool keys = turn++ % 2 == 0;
                expect_reference_bytes(causal_problem(n + (keys ? 0 : more), n + (keys ? more : 0), dim),
                                       CaseKind::uniform);
            }
        turn += dim % 32 == 0 ? 1 : 0;
    }
}

TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesOfHeadsThatShareKeys) {
    for (const int64_t dim : kDims)
        for (const int64_t keys : {70, 171, 20})
            for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread})
                expect_reference_bytes(with_heads(causal_problem(70, keys, dim), 2, 4, 2), kind);
}

// Rows that stray while others of their block do not, at keys that they see and at keys that they do not see.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesOnMixedRows) {
    static std::map<const Contract*, std::vector<AttentionCase>> made; // the same for every kernel of a contract
    std::vector<AttentionCase>& cases = made[GetParam().under];
    if (cases.empty())
        for (const int64_t dim : {1, 32, 33, 64, 100, 128})
            for (const int64_t n : {65, 127, 193})
                for (const int64_t keys : {n, n + 31, n - 40}) {
                    const Problem problem = with_heads(causal_problem(n, keys, dim), 12, 1, 1);
                    cases.push_back(mixed_rows(problem, 12 * cases.size(), *GetParam().under));
                }
    for (const AttentionCase& test : cases) expect_reference_bytes(test);
}

// Each problem has every third of the kinds, the next problem the kinds after those.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesOnKindsThatAreTimed) {
    const std::vector<Distribution> kinds = timed_distributions();
    size_t first = 0;
    for (Problem problem : timed_problems()) {
        problem.mask = Mask::causal;
        for (size_t kind = first++ % 3; kind < kinds.size(); kind += 3) expect_reference_bytes(problem, kinds[kind]);
    }
}

TEST_P(EachKernelUnderTheMask, TakesEachOperandWhereItIs) {
    for (const int64_t dim : {32, 64, 128, 37})
        for (const int64_t keys : {70, 171, 20}) {
            const Problem problem = with_heads(causal_problem(70, keys, dim), 2, 4, 2);
            if (!plan(problem).why_not.empty()) continue;
            const AttentionCase test = case_of(problem, CaseKind::uniform);
            EXPECT_TRUE(same_bytes(test.expected, attend_scattered(GetParam(), test))) << test.name;
        }
}

// Large blocks, blocks that draw or share their work, groups that share a block's keys, and blocks with rows that see
// no key.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesWhenTheCardIsFull) {
    const int64_t batches = current_device().multiprocessors / 4;
    for (const int64_t dim : {32, 64, 128}) {
        for (const int64_t keys : {130, 40})
            expect_reference_bytes(with_heads(causal_problem(130, keys, dim), batches, 8, 2), CaseKind::uniform);
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread})
            expect_statistics_too(with_heads(causal_problem(520, 520, dim), 2 * batches + 1, 1, 1), kind);
    }
    expect_reference_bytes(with_heads(causal_problem(520, 600, 64), batches / 4, 8, 4), CaseKind::uniform);
    expect_reference_bytes(with_heads(causal_problem(2500, 2500, 64), 2, 1, 1), CaseKind::uniform);
}

// The later part sees more keys than the first; with fewer keys than queries, the first part sees none.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesOfSomeQueriesOfEveryHead) {
    for (const int64_t dim : {32, 64, 128})
        for (const int64_t keys : {kQueryStep + 70, kQueryStep + 171, int64_t{100}}) {
            const Problem problem = with_heads(causal_problem(kQueryStep + 70, keys, dim), 2, 2, 1);
            expect_reference_bytes(case_of(problem, CaseKind::uniform), in_query_steps(GetParam()));
        }
}

// For compute-sanitizer (make gpu-check).
TEST_P(EachKernelUnderTheMask, SanitizerShapes) {
    for (const int64_t dim : {32, 64, 128, 37}) expect_reference_bytes(causal_problem(66, 66, dim), CaseKind::uniform);
    for (const int64_t dim : {64, 37})
        for (const Problem& problem : {causal_problem(33, 70, dim), with_heads(causal_problem(70, 5, dim), 1, 2, 1)})
            expect_reference_bytes(problem, CaseKind::uniform);
    expect_reference_bytes(causal_problem(40, 40, 64), CaseKind::brink);
}

INSTANTIATE_TEST_SUITE_P(Every, EachKernelUnderTheMask, testing::ValuesIn(kernels_that_do(kForward, Mask::causal)),
                         kernel_of_instance);

} // namespace
} // namespace hw4::gpu
