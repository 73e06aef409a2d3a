// The properties of attention, of the reference and of every CPU kernel.
#include "properties.h"

#include "../src/cpu/engine.h"

namespace hw4 {
namespace {

Subject reference() {
    return {"reference", [](const Shape&) { return std::string(); },
            [](const Shape& shape, const std::vector<float>& qkv) {
                std::vector<float> out(static_cast<size_t>(shape.batches) * shape.matrix_floats());
                for (size_t b = 0; b < static_cast<size_t>(shape.batches); ++b) {
                    const float* q = qkv.data() + b * shape.batch_input_floats();
                    sequential_attention(q, q + shape.matrix_floats(), q + 2 * shape.matrix_floats(),
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
    return {kernel.name, why_not, attend};
}

std::vector<Subject> subjects() {
    std::vector<Subject> list = {reference()};
    for (const cpu::Kernel* kernel : cpu::kernels())
        if (kernel->arithmetic == Arithmetic::f32) list.push_back(cpu_kernel(*kernel));
    return list;
}

INSTANTIATE_TEST_SUITE_P(Cpu, Properties, testing::ValuesIn(subjects()),
                         [](const auto& instance) { return instance.param.name; });

// However a run is cut into chunks, pieces and threads.
TEST(CpuRun, GivesTheSameBytesHoweverItIsCut) {
    const AttentionCase test({11, 70, 20}, CaseKind::spread, 4);
    const std::string expected = test::bytes_of(test.expected.data(), test.expected.size());
    constexpr StagingLimits kLimits[] = {{1, 1, 80, 160}, {3, 2, 4096, 3 * 4096}, {}};
    for (const cpu::Kernel* kernel : cpu::kernels()) {
        if (!kernel->supported() || kernel->arithmetic != Arithmetic::f32) continue;
        for (const int threads : {1, 3})
            for (const int64_t chunk : {1, 4, 11})
                for (const StagingLimits& limits : kLimits) {
                    EngineOptions options;
                    options.kernel = kernel->name;
                    options.threads = threads;
                    options.chunk_batches = chunk;
                    EXPECT_TRUE(from_file_to_file(test, options, limits, cpu::make_engine) == expected)
                        << kernel->name << ", " << threads << " threads, " << chunk << " batches, "
                        << limits.piece_bytes;
                }
    }
}

} // namespace
} // namespace hw4
