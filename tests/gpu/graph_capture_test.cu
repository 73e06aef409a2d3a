// Every kernel as a node of a CUDA graph: a launch only enqueues work, and a replay gives the same bytes.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "src/gpu/device/memory.h"
#include "src/gpu/kernels.h"
#include "src/io/case_values.h"
#include "tests/support/need_gpu.h"
#include "tests/support/temporary_folder.h"

namespace hw4::gpu {
namespace {

using KernelAndElement = std::tuple<Kernel, Element>;

struct DestroyGraphExec {
    void operator()(cudaGraphExec_t g) const noexcept { HW4_CUDA_NOEXCEPT(cudaGraphExecDestroy(g)); }
};
using GraphExec = Owner<cudaGraphExec_t, DestroyGraphExec>;

class CapturedKernel : public testing::TestWithParam<KernelAndElement> {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }

    static std::vector<unsigned char> bytes_in(const Scratch& memory, size_t bytes) {
        std::vector<unsigned char> copy(bytes);
        HW4_CUDA(cudaMemcpy(copy.data(), memory.get(), bytes, cudaMemcpyDeviceToHost));
        return copy;
    }
};

TEST_P(CapturedKernel, GivesTheSameBytesInAReplay) {
    const auto& [kernel, element] = GetParam();
    Problem problem{3, 700, 64};
    problem.operation = kernel.does;
    problem.element = element;
    const Device device = current_device();
    const Plan plan = plan_of(kernel, problem, device);
    if (!plan.why_not.empty()) GTEST_SKIP() << plan.why_not;
    std::vector<float> values(problem.floats_in(problem.input_rows()));
    fill_case_values({problem, CaseKind::uniform, 8}, 0, values.size(), values.data());
    narrow(element, values.data(), values.size(), values.data());
    const Scratch in = make_scratch(problem.stored_input_bytes());
    const Scratch out = make_scratch(problem.stored_output_bytes());
    const Scratch scratch = make_scratch(plan.scratch_bytes);
    const Launch launch = launch_of(problem, device, in.get(), 64, out.get(), 64, scratch.get(), plan.scratch_bytes);
    const Stream stream = make_stream();
    HW4_CUDA(
        cudaMemcpyAsync(in.get(), values.data(), problem.stored_input_bytes(), cudaMemcpyHostToDevice, stream.get()));
    const auto poison = [&] {
        HW4_CUDA(cudaMemsetAsync(out.get(), 0xff, problem.stored_output_bytes(), stream.get()));
        HW4_CUDA(cudaMemsetAsync(scratch.get(), 0xff, plan.scratch_bytes, stream.get()));
    };
    poison();
    kernel.launch(launch, stream.get());
    HW4_CUDA(cudaStreamSynchronize(stream.get()));
    const std::vector<unsigned char> wanted = bytes_in(out, problem.stored_output_bytes());

    // In this mode every call that waits or allocates fails, on any thread.
    HW4_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
    kernel.launch(launch, stream.get());
    cudaGraph_t captured = nullptr;
    HW4_CUDA(cudaStreamEndCapture(stream.get(), &captured));
    const Graph graph(captured);
    cudaGraphExec_t made = nullptr;
    HW4_CUDA(cudaGraphInstantiate(&made, graph.get(), 0));
    const GraphExec replay(made);
    for (int run = 0; run < 2; ++run) {
        poison();
        HW4_CUDA(cudaGraphLaunch(replay.get(), stream.get()));
        HW4_CUDA(cudaStreamSynchronize(stream.get()));
        EXPECT_TRUE(wanted == bytes_in(out, problem.stored_output_bytes())) << run;
    }
}

INSTANTIATE_TEST_SUITE_P(Every, CapturedKernel,
                         testing::Combine(testing::ValuesIn(kernels()),
                                          testing::Values(Element::float32, Element::bf16)),
                         [](const auto& instance) {
                             return std::string(std::get<0>(instance.param).name) + "_" +
                                    name_of(std::get<1>(instance.param));
                         });

// The launch refuses a tensor that a kernel cannot read four or eight elements at a time.
TEST(LaunchOfAKernel, RefusesTensorsThatAreNotAligned) {
    const auto refusal = [](const char* name, Element element, const void* in, size_t row) {
        Problem problem{1, 8, 64};
        problem.element = element;
        const Device device{90, 227 * 1024, 132};
        return failure_of([&] {
            find_kernel(name)->launch(launch_of(problem, device, in, row, reinterpret_cast<void*>(8192), 64, nullptr),
                                      nullptr);
        });
    };
    const auto at = [](uintptr_t address) { return reinterpret_cast<const void*>(address); };
    const Failure pointer = refusal("drawn_tiles", Element::float32, at(4100), 64);
    EXPECT_EQ(pointer.code, ExitCode::usage);
    EXPECT_EQ(pointer.message, "kernel drawn_tiles: rows of Q have to begin at multiples of 16 bytes: pointer and "
                               "strides do not allow it");
    EXPECT_EQ(refusal("drawn_tiles", Element::float32, at(4096), 66).code, ExitCode::usage);
    EXPECT_EQ(
        refusal("wgmma_bf16", Element::bf16, at(4096 + 8), 64).message,
        "kernel wgmma_bf16: rows of Q have to begin at multiples of 16 bytes: pointer and strides do not allow it");
    EXPECT_EQ(refusal("wgmma_bf16", Element::bf16, at(4096), 68).code, ExitCode::usage);
    EXPECT_EQ(refusal("wgmma_pairs", Element::fp16, at(4096 + 2), 64).code, ExitCode::usage);
}

} // namespace
} // namespace hw4::gpu
