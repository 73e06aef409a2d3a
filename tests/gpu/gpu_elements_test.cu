// Files of every element type through the GPU engine, in padded and in packed rows: the output is that of the same
// numbers as float32 in padded rows, rounded; and the engine copies no more than the files have. Also the kernel that
// converts rows.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/gpu/device/memory.h"
#include "src/gpu/engine.h"
#include "src/gpu/kernels.h"
#include "src/run/pipeline.h"
#include "tests/support/file_to_file.h"
#include "tests/support/need_gpu.h"

namespace hw4::gpu {
namespace {

class StoredElementOnGpu : public testing::TestWithParam<Element> {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }

    // The output files for an input of such elements; its values fit the narrow type even when stored as float32.
    // `lse` is empty where there are no logsumexps.
    struct Outputs {
        std::string rows;
        std::string lse;
    };
    Outputs outputs(Problem problem, Element element, const std::vector<float>& values, const EngineOptions& options) {
        problem.element = element;
        write_file(folder_ / "a.in", file_of(problem, values));
        CaseReader input(folder_ / "a.in");
        OutputFile output(folder_ / "a.out", interrupts_);
        OutputFile lse(folder_ / "a.lse", interrupts_);
        const bool has_lse = why_no_statistics(*options.contract, problem).empty();
        Timeline timeline;
        run_case({input, output, options, {}, always(make_engine), &timeline, has_lse ? &lse : nullptr});
        output.commit(false);
        if (has_lse) lse.commit(false);
        const TimelineSummary stages = summarise(timeline.spans());
        EXPECT_EQ(stages[Stage::copy_in].bytes, problem.stored_input_bytes());
        return {read_file(folder_ / "a.out"), has_lse ? read_file(folder_ / "a.lse") : ""};
    }

    // Rounds floats to the file's element type.
    static std::string rounded(const std::string& floats) {
        std::vector<float> values(floats.size() / sizeof(float));
        std::memcpy(values.data(), floats.data(), floats.size());
        return stored(GetParam(), values);
    }

    // Does nothing where the kernel cannot take the problem, or the contract cannot take the type.
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
        const Outputs got = outputs(problem, GetParam(), values, options);
        // All kernels of a contract give the same bytes where they are promised.
        const bool bytes = kernel.under->compared == Compared::bytes;
        const auto [found, is_new] =
            wanted_.try_emplace({sizes_of(problem).second, bytes ? kernel.under->name : kernel.name});
        Outputs& wanted = found->second;
        options.copies = Copies::two_d; // as rows are in the kernels' own tests
        if (is_new) wanted = outputs(problem, Element::float32, values, options);
        ++compared_;
        EXPECT_TRUE(got.rows == rounded(wanted.rows)) << kernel.name << ", d = " << problem.dim;
        EXPECT_TRUE(got.lse == wanted.lse) << kernel.name << ", d = " << problem.dim;
    }

    int compared_ = 0;
    std::map<std::pair<std::string, std::string>, Outputs> wanted_; // by sizes, and by contract or kernel
    InterruptGuard interrupts_;
    TemporaryFolder folder_;
};

// A single row, in the smallest of slots; and chunks of two batches with a short last chunk. Seven problems: the two
// ways of copying change from each to the next, and from kernel to kernel.
TEST_P(StoredElementOnGpu, IsTakenByEveryKernel) {
    size_t turn = 0;
    for (const KernelInfo& kernel : kernel_list())
        for (const Problem& problem : {Problem{1, 1, 1}, Problem{1, 1, 33}, Problem{5, 133, 1}, Problem{5, 133, 37},
                                       Problem{5, 133, 64}, Problem{5, 133, 100}, Problem{5, 133, 128}}) {
            EngineOptions options;
            options.copies = turn++ % 2 == 0 ? Copies::linear : Copies::two_d;
            if (problem.batches > 1) options.streams = 2;
            if (problem.batches > 1) options.chunk_batches = 2;
            expect_the_same(problem.of_operation(*kernel.does), kernel, options);
        }
    EXPECT_GT(compared_, 0);
}

// Three slices of a batch on two streams, the last one short; the third batch comes into a slot whose slices were
// computed in both streams.
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

// For compute-sanitizer (make gpu-check): under f32 the kernels for several query rows take floats, so rows are
// converted.
TEST_P(StoredElementOnGpu, SanitizerShapes) {
    for (const int64_t dim : {1, 33, 64})
        for (const Problem& problem : {Problem{1, 2, dim}, Problem{3, 2, dim}})
            for (const Copies copies : {Copies::two_d, Copies::linear}) {
                const Kernel* const chosen = choose_kernel(problem, current_device(), kF32);
                ASSERT_NE(chosen, nullptr);
                ASSERT_EQ(chosen->needs.elements.size(), 1u);
                EngineOptions options;
                options.copies = copies;
                options.streams = 2;
                options.chunk_batches = 2;
                expect_the_same(problem, {chosen->name, chosen->idea, chosen->does, chosen->under, ""}, options);
            }
    EXPECT_EQ(compared_, 12);
}

INSTANTIATE_TEST_SUITE_P(Types, StoredElementOnGpu, testing::ValuesIn(kEveryElement),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

// Converts rows of several heads, padded beyond their columns, in memory that ends where they end, to rows of another
// element type with zeros after the last column.
using Elements = std::tuple<Element, Element>;
class ConvertRows : public testing::TestWithParam<Elements> {
protected:
    static constexpr unsigned char kPoison = 0xff;

    static Element from() { return std::get<0>(GetParam()); }
    static Element to() { return std::get<1>(GetParam()); }

    // Stores heads of `rows` rows, with this many elements of padding after each row.
    static std::vector<unsigned char> stored(Element element, const std::vector<float>& values, int64_t dim,
                                             int64_t columns, int64_t row) {
        const size_t size = bytes_of(element);
        const size_t count = values.size() / static_cast<size_t>(dim);
        std::vector<unsigned char> bytes(count * static_cast<size_t>(row) * size, kPoison);
        for (size_t i = 0; i < count; ++i) {
            std::vector<float> line(static_cast<size_t>(columns));
            std::copy_n(values.data() + i * static_cast<size_t>(dim), dim, line.begin());
            narrow(element, line.data(), line.size(), bytes.data() + i * static_cast<size_t>(row) * size);
        }
        return bytes;
    }

    static void expect_as_on_host(int64_t rows, int64_t dim, int64_t beyond, int64_t step) {
        const int64_t heads = 3;
        const int64_t columns = (dim + step - 1) / step * step;
        std::vector<float> values(static_cast<size_t>(heads * rows * dim));
        fill_case_values({{1, heads * rows, dim}, CaseKind::uniform, 8}, 0, values.size(), values.data());
        round_all(from(), values.data(), values.size(), values.data());
        const std::vector<unsigned char> in = stored(from(), values, dim, dim, dim + beyond);
        const std::vector<unsigned char> wanted = stored(to(), values, dim, columns, columns + beyond);
        const Scratch source = make_scratch(in.size());
        const Scratch target = make_scratch(wanted.size());
        HW4_CUDA(cudaMemcpy(source.get(), in.data(), in.size(), cudaMemcpyHostToDevice));
        HW4_CUDA(cudaMemset(target.get(), kPoison, wanted.size()));
        const auto tensor = [&](const Scratch& memory, Element element, int64_t row) {
            return Tensor{memory.get(), element, heads * rows * row, rows * row, row};
        };
        const RowsOfHeads list{
            tensor(source, from(), dim + beyond), tensor(target, to(), columns + beyond), 1, heads, rows, dim, columns};
        convert_rows(&list, 1, nullptr);
        std::vector<unsigned char> got(wanted.size());
        HW4_CUDA(cudaMemcpy(got.data(), target.get(), got.size(), cudaMemcpyDeviceToHost));
        EXPECT_EQ(got, wanted) << rows << ", " << dim << ", " << beyond << ", " << step;
    }
};

// One row, part of a block, and several blocks. Also for compute-sanitizer, which notices access beyond an end.
TEST_P(ConvertRows, SanitizerShapes) {
    HW4_SKIP_WITHOUT_GPU();
    for (const int64_t rows : {1, 8, 9, 200})
        for (const int64_t dim : {1, 33, 36, 64, 256})
            for (const int64_t beyond : {0, 5, 8})
                for (const int64_t step : {1, 8}) expect_as_on_host(rows, dim, beyond, step);
}

INSTANTIATE_TEST_SUITE_P(Elements, ConvertRows,
                         testing::Combine(testing::ValuesIn(kEveryElement), testing::ValuesIn(kEveryElement)),
                         [](const auto& instance) {
                             return std::string(name_of(std::get<0>(instance.param))) + "_to_" +
                                    name_of(std::get<1>(instance.param));
                         });

} // namespace
} // namespace hw4::gpu
