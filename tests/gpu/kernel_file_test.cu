// A kernel in its own file (profile/my_kernel.cu) beside the kernels of the table.
#include "src/gpu/engine.h"

#include <gtest/gtest.h>

#include "src/bench/measure.h"
#include "src/gpu/kernels.h"
#include "tests/support/attend.h"
#include "tests/support/attention_case.h"
#include "tests/support/need_gpu.h"
#include "tests/support/temporary_folder.h"

namespace hw4::gpu {
namespace {

const Device kH200{90, 232448, 132};

// Loading the example and reading its description needs no GPU; tests change fields of the returned copy.
Hw4Kernel example() { return load_kernel_file(HW4_MY_KERNEL); }

std::string why_not(const Hw4Kernel& file, const Problem& problem, const Device& device = kH200) {
    return plan_of(kernel_of_file(file), problem, device).why_not;
}

Problem with_heads() {
    Problem problem(1, 8, 32);
    problem.heads = problem.kv_heads = 2;
    return problem;
}

Problem under_mask() {
    Problem problem(1, 8, 32);
    problem.mask = Mask::causal;
    return problem;
}

TEST(KernelOfFile, TakesWhatItSays) {
    Hw4Kernel file = example();
    EXPECT_EQ(why_not(file, {1, 8, 64}), "");
    EXPECT_EQ(why_not(file, {1, 8, 65}), "kernel my_kernel takes d up to 64, this case has 65");
    EXPECT_EQ(why_not(file, {1, 8, 64}, {61, 49152, 20}),
              "kernel my_kernel needs compute capability 7.5, this GPU has 6.1");
    EXPECT_EQ(why_not(file, with_heads()), "kernel my_kernel takes one head, this case has 2");
    EXPECT_EQ(why_not(file, under_mask()), "kernel my_kernel lacks the mask causal");
    file.knows = HW4_KNOWS_HEADS | HW4_KNOWS_CAUSAL;
    EXPECT_EQ(why_not(file, with_heads()), "");
    EXPECT_EQ(why_not(file, under_mask()), "");
    Problem other = under_mask();
    other.window = 3;
    EXPECT_EQ(why_not(file, other), "kernel my_kernel takes no window");
    other = under_mask();
    other.scale = 0.3;
    EXPECT_EQ(why_not(file, other), "kernel my_kernel takes the scale 1/sqrt(d) alone");
    file.most_dim = 1000;
    EXPECT_EQ(why_not(file, {1, 8, 257}), "kernel my_kernel takes d up to 256, this case has 257");
}

// The architectures of this build do not limit a kernel in a file.
TEST(KernelOfFile, HasCodeOfItsOwn) {
    Hw4Kernel file = example();
    file.least_capability = 90;
    EXPECT_EQ(why_not(file, {1, 8, 64}, {90, 232448, 132, 80}), "");
}

TEST(KernelOfFile, IsMeasuredByHw4Bench) {
    HW4_SKIP_WITHOUT_GPU();
    const Hw4Kernel file = example();
    bench::Cell cell;
    cell.impl = "f32";
    cell.kernel = file.name;
    cell.batch_size = cell.num_heads = 1;
    cell.seq_len = 130;
    cell.emb_dim = 64;
    cell.passes[1] = cell.passes[2] = false;
    cell.rules.warmup = 0;
    cell.rules.repeats = 1;
    bench::KeptData kept;
    const bench::Measured forward = measure(cell, *bench::gpu_workbench(&file), kept).of(bench::Pass::forward);
    EXPECT_EQ(forward.as_reference, true) << forward.reason;
    EXPECT_EQ(forward.kernel, file.name);
}

TEST(KernelOfFile, HasANameOfItsOwn) {
    Hw4Kernel file = example();
    file.name = "drawn_tiles";
    EXPECT_EQ(failure_of([&] { (void)kernel_of_file(file); }),
              (Failure{ExitCode::usage, "the kernel file's kernel is named 'drawn_tiles', as one of "
                                        "--list-kernels; need a name of its own"}));
}

TEST(KernelOfFile, IsAskedForItsScratchMemory) {
    Hw4Kernel file = example();
    file.scratch_bytes = [](const Hw4Launch* sizes) -> size_t {
        return sizes->batches * 1000 + sizes->queries * 100 + sizes->keys * 10 + sizes->dim;
    };
    EXPECT_EQ(plan_of(kernel_of_file(file), {2, 3, 4}, kH200).scratch_bytes, 2334u);
}

// A launch of some queries tells the kernel their number.
TEST(KernelOfFile, IsTold) {
    Hw4Kernel file = example();
    file.launch = [](const Hw4Launch* given) -> int {
        EXPECT_EQ(given->batches, 2);
        EXPECT_EQ(given->queries, 40);
        EXPECT_EQ(given->keys, 200);
        EXPECT_EQ(given->first_seen, 1 + 128);
        EXPECT_EQ(given->more_seen, 1);
        EXPECT_EQ(given->q.at, reinterpret_cast<const float*>(4096) + 128 * 64);
        EXPECT_EQ(given->k.at, reinterpret_cast<const float*>(4096) + 200 * 64);
        EXPECT_EQ(given->out.at, reinterpret_cast<float*>(8192) + 128 * 64);
        EXPECT_EQ(given->k.row, 64);
        EXPECT_EQ(given->k.batch, 3 * 200 * 64);
        EXPECT_EQ(given->out.batch, 200 * 64);
        EXPECT_EQ(given->capability, 90);
        return 0;
    };
    Problem problem(2, 200, 60);
    problem.mask = Mask::causal;
    Launch launch = launch_of(problem, kH200, reinterpret_cast<const float*>(4096), 64, reinterpret_cast<float*>(8192),
                              64, nullptr);
    launch.first_query = 128;
    launch.end_query = 168;
    kernel_of_file(file).launch(launch, nullptr);
}

TEST(KernelOfFile, ALaunchThatFailsIsNamed) {
    Hw4Kernel file = example();
    file.launch = [](const Hw4Launch*) -> int { return cudaErrorInvalidConfiguration; };
    const Failure failure = failure_of([&] {
        kernel_of_file(file).launch(launch_of({1, 1, 1}, kH200, nullptr, 1, nullptr, 1, nullptr), nullptr);
    });
    EXPECT_EQ(failure.code, ExitCode::internal);
    EXPECT_NE(failure.message.find("cudaErrorInvalidConfiguration"), std::string::npos) << failure.message;
    EXPECT_NE(failure.message.find("launch of my_kernel"), std::string::npos) << failure.message;
}

TEST(KernelOfFile, GivesTheReferenceBytes) {
    HW4_SKIP_WITHOUT_GPU();
    const Hw4Kernel file = example();
    const Kernel kernel = kernel_of_file(file);
    for (const Problem& problem : {Problem{1, 1, 1}, Problem{3, 133, 37}, Problem{2, 200, 64}})
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread}) {
            const AttentionCase test(problem, kind, 7);
            const std::vector<float> got = attend_poisoned(problem, test.qkv, 0, launcher_of(kernel));
            EXPECT_TRUE(same_bytes(test.expected, got)) << test.name;
        }
}

} // namespace
} // namespace hw4::gpu
