// V with another number of columns than Q and K: in every kernel of f32, fixed and fixed16, with tensors packed as in
// files; and files with lengths, through the GPU engine.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/cpu/engine.h"
#include "src/gpu/engine.h"
#include "src/io/file_rows.h"
#include "src/run/pipeline.h"
#include "tests/support/each_kernel.h"
#include "tests/support/problems.h"
#include "tests/support/temporary_folder.h"

namespace hw4::gpu {
namespace {

// The numbers of all operands in `list` as files have them, in one piece of device memory each.
std::vector<float> as_file(const Problem& problem, const List<Operand>& list, const std::vector<float>& rows) {
    std::vector<float> numbers;
    each_in_file(problem, list, 0, problem.batches * problem.rows_of(list), rows.data(),
                 [&](uint64_t, const void* from, size_t bytes) {
                     const auto* const values = static_cast<const float*>(from);
                     numbers.insert(numbers.end(), values, values + bytes / sizeof(float));
                 });
    return numbers;
}

Tensor tight_tensor(const Problem& problem, const List<Operand>& list, size_t index, float* file) {
    for (size_t i = 0; i < index; ++i) file += problem.rows_of(list[i]) * problem.columns_of(list[i]);
    const int64_t row = problem.columns_of(list[index]);
    return {file, Element::float32, problem.numbers_of(list), problem.head_rows(list[index]) * row, row};
}

class ValueDimOnGpu : public testing::TestWithParam<Kernel> {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }

    static void expect_reference_bytes(Problem problem) {
        problem.operation = GetParam().does;
        std::vector<float> in(static_cast<size_t>(problem.batches) * problem.batch_input_floats());
        fill_case_values({problem, CaseKind::spread, 5}, 0, in.size(), in.data());
        int64_t row = 0;
        for (int64_t batch = 0; batch < problem.batches; ++batch)
            for (const Operand& operand : problem.operation->inputs)
                for (int64_t end = row + problem.rows_of(operand); row < end; ++row)
                    std::fill(in.begin() + row * problem.dim + problem.columns_of(operand),
                              in.begin() + (row + 1) * problem.dim, 0.0f);
        std::vector<float> rows(static_cast<size_t>(problem.batches) * problem.batch_output_floats());
        compute_by_reference(*GetParam().under, problem, in.data(), rows.data());
        const std::vector<float> wanted = as_file(problem, problem.operation->outputs, rows);
        problem.unpadded = true;
        const Plan plan = plan_of(GetParam(), problem, current_device());
        if (!plan.why_not.empty()) return;
        const std::vector<float> given = as_file(problem, problem.operation->inputs, in);
        const Scratch from = make_scratch(given.size() * sizeof(float));
        const Scratch to = make_scratch(wanted.size() * sizeof(float));
        const Scratch scratch = make_scratch(plan.scratch_bytes);
        Launch launch;
        launch.problem = problem;
        launch.device = current_device();
        for (size_t i = 0; i < problem.operation->inputs.size(); ++i)
            launch.in[i] = tight_tensor(problem, problem.operation->inputs, i, static_cast<float*>(from.get()));
        for (size_t i = 0; i < problem.operation->outputs.size(); ++i)
            launch.out[i] = tight_tensor(problem, problem.operation->outputs, i, static_cast<float*>(to.get()));
        launch.scratch = scratch.get();
        launch.scratch_bytes = plan.scratch_bytes;
        const Stream stream = make_stream();
        poison(to.get(), wanted.size() * sizeof(float), stream.get());
        poison(scratch.get(), plan.scratch_bytes, stream.get());
        HW4_CUDA(cudaMemcpyAsync(from.get(), given.data(), given.size() * sizeof(float), cudaMemcpyHostToDevice,
                                 stream.get()));
        GetParam().launch(launch, stream.get());
        std::vector<float> got(wanted.size());
        HW4_CUDA(
            cudaMemcpyAsync(got.data(), to.get(), got.size() * sizeof(float), cudaMemcpyDeviceToHost, stream.get()));
        HW4_CUDA(cudaStreamSynchronize(stream.get()));
        EXPECT_TRUE(same_bytes(wanted, got)) << problem.key_dim() << ", " << problem.value_dim();
    }
};

TEST_P(ValueDimOnGpu, GivesTheReferenceBytes) {
    const std::pair<int64_t, int64_t> columns[] = {{1, 2}, {20, 48}, {64, 32}, {128, 64}, {33, 100}, {192, 128}};
    for (const auto& [d, d_v] : columns) {
        if (GetParam().under != &kF32 && d != 20 && d != 192) continue;
        expect_reference_bytes(with_heads(causal_problem(130, 200, 1), 2, 4, 2).of_columns(d, d_v));
        expect_reference_bytes(with_heads(Problem(1, 70, 1), 1, 2, 2).of_columns(d, d_v));
        expect_reference_bytes(with_heads(causal_problem(2, 900, 1), 2, 4, 1).of_columns(d, d_v));
    }
}

std::vector<Kernel> kernels_that_pad() {
    std::vector<Kernel> list = kernels_of(kF32, kBackward);
    for (const Contract* contract : {&kF32, &kFixed, &kFixed16})
        for (const Kernel& kernel : kernels_of(*contract)) list.push_back(kernel);
    return list;
}

INSTANTIATE_TEST_SUITE_P(Every, ValueDimOnGpu, testing::ValuesIn(kernels_that_pad()), kernel_of_instance);

// Needs no GPU.
TEST(ValueDimPlans, AreThoseOfTheLargerNumberWithRoomForAllTensors) {
    const Device h200{90, 232448, 132, 90};
    const Problem problem = with_heads(causal_problem(130, 200, 1), 2, 4, 2).of_columns(192, 128);
    Problem tight = problem;
    tight.unpadded = true;
    for (const Kernel& kernel : kernels_that_pad()) {
        const Problem asked = problem.of_operation(*kernel.does);
        const Plan padded = plan_of(kernel, asked, h200);
        const Plan plan = plan_of(kernel, tight.of_operation(*kernel.does), h200);
        EXPECT_EQ(plan.why_not, padded.why_not) << kernel.name;
        if (plan.why_not.empty())
            EXPECT_GE(plan.scratch_bytes, padded.scratch_bytes + asked.input_bytes() + asked.output_bytes());
    }
    tight.by_lengths = tight.by_pages = true;
    EXPECT_EQ(plan_of(*find_kernel("split_keys"), tight, h200).why_not,
              "kernel split_keys takes pages of V with as many columns as K");
}

class FilesOnGpu : public testing::Test {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }

    std::string output(const std::string& file, const MakeEngine& engine, const EngineOptions& options) {
        const TemporaryFolder folder;
        write_file(folder / "a.in", file);
        InterruptGuard interrupts;
        CaseReader input(folder / "a.in");
        OutputFile out(folder / "a.out", interrupts);
        run_case({input, out, options, {}, always(engine)});
        out.commit(false);
        return read_file(folder / "a.out");
    }
};

TEST_F(FilesOnGpu, WithLengthsAndTwoNumbersOfColumns) {
    Problem problem = with_heads(causal_problem(3, 500, 1), 5, 4, 2).of_columns(64, 32);
    for (const bool by_lengths : {false, true}) {
        problem.by_lengths = by_lengths;
        const std::vector<int32_t> lengths = {500, 1, 64, 333, 2};
        std::vector<float> numbers(
            static_cast<size_t>(problem.batches * problem.numbers_of(problem.operation->inputs)));
        fill_case_values({Problem(1, 1, static_cast<int64_t>(numbers.size())), CaseKind::uniform, 3}, 0, numbers.size(),
                         numbers.data());
        const Bytes header = header_of(problem);
        std::string file(header.begin(), header.end());
        if (by_lengths) file += hw4::bytes_of(lengths.data(), lengths.size());
        file += hw4::bytes_of(numbers.data(), numbers.size());
        const std::string wanted = output(file, cpu::make_engine, {});
        for (const Copies copies : {Copies::two_d, Copies::linear})
            for (const int64_t batches : {0, 1, 2}) {
                EngineOptions options;
                options.copies = copies;
                options.chunk_batches = batches;
                EXPECT_EQ(output(file, make_engine, options), wanted) << by_lengths << ", " << batches;
            }
    }
}

} // namespace
} // namespace hw4::gpu
