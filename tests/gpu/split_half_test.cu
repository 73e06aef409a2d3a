// split_bf16 and split_fp16 where the tests of all half kernels do not reach: many keys for few query rows, and batches
// of different lengths.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/attend.h"
#include "tests/support/half_bound.h"
#include "tests/support/need_gpu.h"
#include "tests/support/problems.h"

namespace hw4::gpu {
namespace {

class SplitHalf : public testing::TestWithParam<const Contract*> {
protected:
    void SetUp() override {
        HW4_SKIP_WITHOUT_GPU();
        const std::string refusal = plan_of(kernel_, causal_problem(1, 1, 256), current_device()).why_not;
        if (!refusal.empty()) GTEST_SKIP() << refusal;
    }

    std::vector<float> attend(Problem problem, const std::vector<float>& values, const std::vector<int32_t>& lengths) {
        problem.by_lengths = !lengths.empty();
        const Scratch on_card = make_scratch(lengths.size() * sizeof(int32_t));
        HW4_CUDA(cudaMemcpy(on_card.get(), lengths.data(), lengths.size() * sizeof(int32_t), cudaMemcpyHostToDevice));
        const auto launch = [&](Launch asked, cudaStream_t stream) {
            if (problem.by_lengths) asked.lengths = static_cast<const int32_t*>(on_card.get());
            kernel_.launch(asked, stream);
        };
        return attend_poisoned(problem, values, plan_of(kernel_, problem, current_device()).scratch_bytes, launch);
    }

    void expect_within_bound(const Problem& problem, const Distribution& kind = CaseKind::uniform) {
        const std::vector<float> values = values_of(problem, kind);
        EXPECT_TRUE(HalfRows(problem, GetParam()->element, values).hold(attend(problem, values, {})));
    }

    // Each batch must be within the bound and have the bytes that it has alone. Rows beyond a length are NaN.
    void expect_lengths(const Problem& problem, const std::vector<int32_t>& lengths) {
        std::vector<float> values = values_of(problem);
        const size_t queries = problem.floats_in(problem.heads * problem.queries);
        for (size_t batch = 0; batch < lengths.size(); ++batch)
            for (int64_t row = 0; row < 2 * problem.kv_heads * problem.keys; ++row)
                if (row % problem.keys >= lengths[batch])
                    std::fill_n(values.begin() + static_cast<int64_t>(batch * problem.batch_input_floats() + queries) +
                                    row * problem.dim,
                                problem.dim, std::numeric_limits<float>::quiet_NaN());
        const std::vector<float> all = attend(problem, values, lengths);
        for (int64_t batch = 0; batch < problem.batches; ++batch) {
            Problem one = problem.of_batches(1);
            one.keys = std::clamp<int64_t>(lengths[static_cast<size_t>(batch)], 0, problem.keys);
            const auto floats = static_cast<int64_t>(problem.batch_output_floats());
            const std::vector<float> got(all.begin() + batch * floats, all.begin() + (batch + 1) * floats);
            if (one.keys == 0) {
                EXPECT_EQ(got, std::vector<float>(got.size())) << batch;
                continue;
            }
            const std::vector<float> in = batch_of(problem, values, batch, one.keys);
            EXPECT_TRUE(HalfRows(one, GetParam()->element, in).hold(got)) << "batch " << batch;
            EXPECT_EQ(got, attend(one, in, {})) << "batch " << batch << ", keys " << one.keys;
        }
    }

    const Kernel& kernel_ = *find_kernel("split_" + std::string(GetParam()->name));
};

// Parts of every length, sequences that end inside a part and at its end; groups of heads that fill a tile of rows,
// half a tile and two. Float64 takes long: each number of keys has three of the nine groups, by turns.
TEST_P(SplitHalf, IsWithinTheBoundOfManyKeys) {
    size_t turn = 0;
    for (const int64_t dim : {64, 128})
        for (const int64_t keys : {511, 512, 513, 1000, 1025, 4096, 5000, 20000}) {
            ++turn;
            for (const int64_t heads : {1, 4, 16}) {
                const int64_t queries = std::array{1, 2, 7}[turn++ % 3];
                if (keys > 1025 && heads * queries > 16) continue;
                expect_within_bound(with_heads(causal_problem(queries, keys, dim), 1, 2 * heads, 2), CaseKind::spread);
            }
        }
}

TEST_P(SplitHalf, TakesBatchesOfAnyLength) {
    for (const auto& [problem, step] : {std::pair(with_heads(causal_problem(1, 1100, 128), 64, 8, 2), 17),
                                        std::pair(with_heads(causal_problem(3, 700, 64), 6, 8, 1), 137),
                                        std::pair(with_heads(causal_problem(2, 300, 256), 5, 2, 2), 70)}) {
        std::vector<int32_t> lengths;
        for (int32_t batch = 0; batch < problem.batches; ++batch) lengths.push_back(1 + batch * step);
        lengths[1] = static_cast<int32_t>(problem.keys) + 100; // clamped, as are the next two
        lengths[2] = 0;
        lengths[3] = -5;
        expect_lengths(problem, lengths);
    }
}

// More units than the launch has blocks for each part.
TEST_P(SplitHalf, TakesSeveralPartsABlock) { expect_within_bound(with_heads(causal_problem(1, 520, 4), 9000, 1, 1)); }

// A prefill is computed some queries at a time: scratch memory does not grow with the number of queries.
TEST_P(SplitHalf, TakesManyQueries) {
    expect_within_bound(with_heads(causal_problem(300, 700, 64), 2, 4, 2));
    const auto scratch = [&](int64_t queries) {
        Problem long_one = causal_problem(queries, 9000, 64);
        long_one.element = GetParam()->element; // no conversion
        return plan_of(kernel_, long_one, current_device()).scratch_bytes;
    };
    EXPECT_EQ(scratch(9000), scratch(200));
}

// Cards on which a block may have 99 KiB of shared memory.
TEST_P(SplitHalf, GivesTheSameBytesWithLessSharedMemory) {
    Device small = current_device();
    small.shared_bytes = size_t{99} << 10;
    for (const int64_t dim : {64, 128, 256}) {
        const Problem problem = with_heads(causal_problem(5, 900, dim), 1, 8, 2);
        const std::vector<float> values = values_of(problem);
        const Plan plan = plan_of(kernel_, problem, small);
        ASSERT_EQ(plan.why_not, "");
        const auto launch = [&](Launch asked, cudaStream_t stream) {
            asked.device = small;
            kernel_.launch(asked, stream);
        };
        EXPECT_EQ(attend(problem, values, {}), attend_poisoned(problem, values, plan.scratch_bytes, launch)) << dim;
    }
}

TEST_P(SplitHalf, GivesTheSameBytesAHundredTimes) {
    const Problem problem = with_heads(causal_problem(2, 6000, 128), 2, 16, 4);
    const std::vector<float> values = values_of(problem);
    const std::vector<float> first = attend(problem, values, {5999, 1300});
    for (int run = 1; run < 100; ++run) ASSERT_EQ(first, attend(problem, values, {5999, 1300})) << run;
}

INSTANTIATE_TEST_SUITE_P(Every, SplitHalf, testing::Values(&kBf16, &kFp16),
                         [](const auto& instance) { return std::string(instance.param->name); });

} // namespace
} // namespace hw4::gpu
