// The properties of attention, of the references and of every CPU kernel.
#include "tests/support/properties.h"

#include "src/cpu/engine.h"

namespace hw4 {
namespace {

Subject reference(Arithmetic arithmetic) {
    const std::string name = arithmetic == Arithmetic::f32 ? "reference" : "fixed_reference";
    return {name, arithmetic, [](const Shape&) { return std::string(); },
            [arithmetic](const Shape& shape, const std::vector<float>& qkv) {
                std::vector<float> out(static_cast<size_t>(shape.batches) * shape.matrix_floats());
                for (size_t b = 0; b < static_cast<size_t>(shape.batches); ++b) {
                    const float* q = qkv.data() + b * shape.batch_input_floats();
                    sequential_attention(arithmetic, q, q + shape.matrix_floats(), q + 2 * shape.matrix_floats(),
                                         out.data() + b * shape.matrix_floats(), shape.tokens, shape.dim);
                }
                return out;
            }};
}

Subject cpu_kernel(const cpu::Kernel& kernel) {
    const auto why_not = [&kernel](const Shape&) {
        return kernel.supported() ? "" : "this processor has no " + std::string(kernel.name);
    };
    const auto attend = [&kernel](const Shape& shape, const std::vector<float>& qkv) {
        std::vector<float> out(static_cast<size_t>(shape.batches) * shape.matrix_floats(), NAN);
        cpu::attend_batches(kernel, shape, shape.batches, qkv.data(), out.data(), 2);
        return out;
    };
    return {kernel.name, kernel.arithmetic, why_not, attend};
}

std::vector<Subject> subjects(Arithmetic arithmetic) {
    std::vector<Subject> list = {reference(arithmetic)};
    for (const cpu::Kernel* kernel : cpu::kernels())
        if (kernel->arithmetic == arithmetic) list.push_back(cpu_kernel(*kernel));
    return list;
}

std::string name_of_instance(const testing::TestParamInfo<Subject>& instance) { return instance.param.name; }

INSTANTIATE_TEST_SUITE_P(Cpu, Properties, testing::ValuesIn(subjects(Arithmetic::f32)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(CpuFixed, Properties, testing::ValuesIn(subjects(Arithmetic::fixed)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(CpuFixed, FixedProperties, testing::ValuesIn(subjects(Arithmetic::fixed)), name_of_instance);

class CpuRun : public testing::TestWithParam<const cpu::Kernel*> {};

// However a run is cut into chunks, pieces and threads.
TEST_P(CpuRun, GivesTheSameBytesHoweverItIsCut) {
    constexpr StagingLimits kLimits[] = {{1, 1, 80, 160}, {3, 2, 4096, 3 * 4096}, {}};
    const cpu::Kernel& kernel = *GetParam();
    if (!kernel.supported()) GTEST_SKIP() << "this processor has no " << kernel.name;
    const AttentionCase test({11, 70, 20}, CaseKind::spread, 4, kernel.arithmetic);
    const std::string expected = test::bytes_of(test.expected.data(), test.expected.size());
    for (const int threads : {1, 3})
        for (const int64_t chunk : {1, 4, 11})
            for (const StagingLimits& limits : kLimits) {
                EngineOptions options;
                options.arithmetic = kernel.arithmetic;
                options.kernel = kernel.name;
                options.threads = threads;
                options.chunk_batches = chunk;
                EXPECT_TRUE(from_file_to_file(test, options, limits, cpu::make_engine) == expected)
                    << threads << " threads, " << chunk << " batches, " << limits.piece_bytes;
            }
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuRun, testing::ValuesIn(cpu::kernels()),
                         [](const auto& instance) { return std::string(instance.param->name); });

} // namespace
} // namespace hw4
