// Launches with 16-bit tensors, for kernels that take them directly and for kernels that need a conversion: the output
// is that of the same numbers as floats, rounded once.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "src/problem/domain.h"
#include "tests/support/attend.h"
#include "tests/support/need_gpu.h"
#include "tests/support/problems.h"

namespace hw4::gpu {
namespace {

constexpr uint16_t kPoison = 0xffff; // a NaN in either type

// Rows with padding after their columns; the padding and the output are poisoned.
class NarrowRows {
public:
    // `step`: where dim is a multiple of this many columns, so is the row stride.
    NarrowRows(int64_t rows, int64_t dim, int64_t step)
        : dim_(static_cast<size_t>(dim)), row_(dim_ + static_cast<size_t>(dim % step == 0 ? step : 3)),
          host_(static_cast<size_t>(rows) * row_, kPoison), device_(make_scratch(bytes())) {}

    void fill(const std::vector<uint16_t>& numbers) {
        each_row([&](uint16_t* row, size_t at) { std::copy_n(numbers.data() + at, dim_, row); });
    }
    // Returns the rows; empty where something was written between them.
    std::vector<uint16_t> numbers() {
        std::vector<uint16_t> list(host_.size() / row_ * dim_);
        each_row([&](uint16_t* row, size_t at) {
            std::copy_n(row, dim_, list.data() + at);
            std::fill_n(row, dim_, kPoison);
        });
        const bool clean = std::all_of(host_.begin(), host_.end(), [](uint16_t x) { return x == kPoison; });
        return clean ? list : std::vector<uint16_t>();
    }

    void copy_in(cudaStream_t stream) {
        HW4_CUDA(cudaMemcpyAsync(device_.get(), host_.data(), bytes(), cudaMemcpyHostToDevice, stream));
    }
    void poison(cudaStream_t stream) { HW4_CUDA(cudaMemsetAsync(device_.get(), 0xff, bytes(), stream)); }
    void copy_out(cudaStream_t stream) {
        HW4_CUDA(cudaMemcpyAsync(host_.data(), device_.get(), bytes(), cudaMemcpyDeviceToHost, stream));
    }
    uint16_t* data() const { return static_cast<uint16_t*>(device_.get()); }
    size_t stride() const { return row_; }

private:
    size_t bytes() const { return host_.size() * sizeof(uint16_t); }

    template <class Visit>
    void each_row(const Visit& visit) {
        for (size_t row = 0; row < host_.size() / row_; ++row) visit(host_.data() + row * row_, row * dim_);
    }

    size_t dim_;
    size_t row_;
    std::vector<uint16_t> host_;
    Scratch device_;
};

std::vector<uint16_t> narrowed(Element element, const std::vector<float>& values) {
    std::vector<uint16_t> numbers(values.size());
    narrow(element, values.data(), values.size(), numbers.data());
    return numbers;
}

using KernelAndElement = std::tuple<Kernel, Element>;

class NarrowOperands : public testing::TestWithParam<KernelAndElement> {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }
    void TearDown() override {
        if (compared_ == 0 && !refusal_.empty()) GTEST_SKIP() << refusal_;
    }

    static const Kernel& kernel() { return std::get<0>(GetParam()); }
    static Element element() { return std::get<1>(GetParam()); }

    // Does nothing where the kernel cannot take the problem, or the contract cannot take the rounded numbers.
    template <class Run>
    void expect_bytes(Problem problem, const Distribution& values, Run run) {
        problem.element = element();
        const Plan plan = plan_of(kernel(), problem, current_device());
        refusal_ = plan.why_not;
        if (!plan.why_not.empty()) return;
        const std::optional<AttentionCase>& test = case_of(problem, values);
        if (!test) return;
        ++compared_;
        const Stream stream = make_stream();
        NarrowRows in(problem.input_rows(), problem.dim, row_step());
        in.fill(narrowed(element(), test->qkv));
        in.copy_in(stream.get());
        std::vector<RowStatistics> statistics;
        const std::vector<uint16_t> expected = narrowed(element(), test->expected);
        EXPECT_TRUE(expected == attend(problem, in, stream.get(), plan.scratch_bytes, run, &statistics)) << test->name;
        EXPECT_TRUE(same_statistics(test->statistics, statistics)) << test->name;
        EXPECT_TRUE(expected == attend(problem, in, stream.get(), plan.scratch_bytes, run, nullptr))
            << test->name << ", without statistics";
    }
    void expect_bytes(const Problem& problem, const Distribution& values = CaseKind::uniform) {
        expect_bytes(problem, values, launcher_of(kernel()));
    }

private:
    static bool takes(const Problem& problem, const std::vector<float>& values) {
        try {
            DomainCheck("", problem, kernel().under->domain).check(0, problem.input_rows(), values.data());
            return true;
        } catch (const Flaw&) {
            return false;
        }
    }

    // Values that the element can represent; shared by all kernels of a contract.
    static const std::optional<AttentionCase>& case_of(const Problem& problem, const Distribution& distribution) {
        using Key = std::tuple<std::string, std::string, const Contract*>;
        static std::map<Key, std::optional<AttentionCase>> cases;
        const Key key{sizes_of(problem).second, spelling_of(distribution), kernel().under};
        const auto found = cases.find(key);
        if (found != cases.end()) return found->second;
        std::vector<float> values(problem.floats_in(problem.input_rows()));
        fill_case_values({problem, distribution, 3}, 0, values.size(), values.data());
        round_all(problem.element, values.data(), values.size(), values.data());
        if (!takes(problem, values)) return cases.emplace(key, std::nullopt).first->second;
        const auto fill = [&](float* to, int64_t batch) {
            const size_t count = problem.batch_input_floats();
            std::copy_n(values.data() + static_cast<size_t>(batch) * count, count, to);
        };
        return cases.emplace(key, AttentionCase::filled(problem, spelling_of(distribution), fill, *kernel().under))
            .first->second;
    }

    static int64_t row_step() { return std::max<int64_t>(4, kernel().needs.column_step(element())); }

    // `statistics` may be null: then none are computed, perhaps by other code.
    template <class Run>
    static std::vector<uint16_t> attend(const Problem& problem, const NarrowRows& in, cudaStream_t stream,
                                        size_t scratch_bytes, Run run, std::vector<RowStatistics>* statistics) {
        NarrowRows out(problem.output_rows(), problem.dim, row_step());
        out.poison(stream);
        const Scratch scratch = make_scratch(scratch_bytes);
        gpu::poison(scratch.get(), scratch_bytes, stream);
        const size_t statistics_bytes = static_cast<size_t>(problem.output_rows()) * sizeof(RowStatistics);
        const Scratch rows = make_scratch(statistics_bytes);
        Launch launch = launch_of(problem, current_device(), in.data(), in.stride(), out.data(), out.stride(),
                                  scratch.get(), scratch_bytes);
        if (statistics != nullptr) launch.statistics = static_cast<RowStatistics*>(rows.get());
        run(launch, stream);
        out.copy_out(stream);
        if (statistics != nullptr) {
            statistics->resize(static_cast<size_t>(problem.output_rows()));
            HW4_CUDA(cudaMemcpyAsync(statistics->data(), rows.get(), statistics_bytes, cudaMemcpyDeviceToHost, stream));
        }
        HW4_CUDA(cudaStreamSynchronize(stream));
        return out.numbers();
    }

    int compared_ = 0;
    std::string refusal_;
};

constexpr int64_t kDims[] = {1, 2, 4, 32, 33, 64, 100, 128, 200, 256}; // every row size of kernels, full and partial

TEST_P(NarrowOperands, GiveTheReferenceBytes) {
    for (const int64_t dim : kDims)
        for (const int64_t n : {1, 63, 64, 65, 127, 128, 129, 300}) expect_bytes({1, n, dim});
}

// Some cases have numbers of every magnitude that the type has.
TEST_P(NarrowOperands, GiveTheReferenceBytesOnEveryKind) {
    for (const Problem& problem : {Problem{1, 300, 64}, Problem{2, 130, 33}, Problem{1, 70, 128}})
        for (const CaseKind kind : kAllKinds) expect_bytes(problem, kind);
}

TEST_P(NarrowOperands, GiveTheReferenceBytesUnderTheMask) {
    for (const int64_t dim : kDims)
        for (const int64_t keys : {1, 65, 129, 200})
            for (const int64_t queries : {keys, keys + 70}) expect_bytes(causal_problem(queries, keys, dim));
}

TEST_P(NarrowOperands, GiveTheReferenceBytesOfHeadsThatShareKeys) {
    for (const int64_t dim : {1, 33, 64, 100, 128})
        for (const int64_t keys : {1, 70, 200})
            for (const Mask mask : kEveryMask) expect_bytes(problem_of({2, 4, 2, 70, keys, dim}, mask));
}

// Blocks that share their work, and groups that share a block's keys.
TEST_P(NarrowOperands, GiveTheReferenceBytesWhenTheCardIsFull) {
    const int64_t multiprocessors = current_device().multiprocessors;
    for (const int64_t dim : {32, 64, 128}) {
        expect_bytes({3 * multiprocessors, 64, dim});
        expect_bytes(with_heads(causal_problem(700, 700, dim), multiprocessors / 8 + 1, 4, 4));
    }
    if (element() == Element::fp16) return; // the division of work, tested below, is the same for both types
    for (const int64_t dim : {32, 33, 64}) expect_bytes({multiprocessors / 2 + 1, 700, dim});
    expect_bytes({5 * multiprocessors / 2, 520, 64}); // heads that are prepared alongside the products
    expect_bytes(with_heads({1, 1030, 64}, multiprocessors / 4, 8, 4), CaseKind::spread);
    if (kernel().under == &kFixed16) expect_bytes({29 * multiprocessors, 192, 32}); // many jobs per block
}

TEST_P(NarrowOperands, GiveTheReferenceBytesOfSomeQueriesOfEveryHead) {
    for (const int64_t dim : {33, 64, 128})
        for (const Mask mask : kEveryMask)
            expect_bytes(problem_of({2, 2, 1, kQueryStep + 70, 100, dim}, mask), CaseKind::uniform,
                         in_query_steps(kernel()));
}

// For compute-sanitizer (make gpu-check).
TEST_P(NarrowOperands, SanitizerShapes) {
    for (const int64_t dim : {1, 33, 64, 128}) {
        expect_bytes({1, 70, dim});
        expect_bytes(with_heads(causal_problem(33, 70, dim), 1, 2, 1));
    }
}

// All kernels that take 16 bits, and one of f32 and one of fixed, which do not.
std::vector<Kernel> tested_kernels() {
    std::vector<Kernel> list = kernels_of(kFixed16);
    for (const char* name : {"split_keys", "drawn_tiles", "wgmma_shares"}) list.push_back(*find_kernel(name));
    return list;
}

std::string name_of_pair(const testing::TestParamInfo<KernelAndElement>& instance) {
    return std::string(std::get<0>(instance.param).name) + "_" + name_of(std::get<1>(instance.param));
}

INSTANTIATE_TEST_SUITE_P(Every, NarrowOperands,
                         testing::Combine(testing::ValuesIn(tested_kernels()),
                                          testing::Values(Element::bf16, Element::fp16)),
                         name_of_pair);

} // namespace
} // namespace hw4::gpu
