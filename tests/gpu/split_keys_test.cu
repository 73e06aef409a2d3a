// split_keys where the tests of all kernels do not reach: batches of different lengths, keys in pages, and rows of
// scores whose reference changes in the middle of the keys, so that shares are computed again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "src/contracts/f32/forward.h"
#include "src/gpu/kernels.h"
#include "tests/support/attend.h"
#include "tests/support/expected.h"
#include "tests/support/need_gpu.h"
#include "tests/support/problems.h"

namespace hw4::gpu {
namespace {

// The magnitude of K, key by key.
enum class Keys { alike, rising_late, first_tile_large, first_tile_low };

float magnitude(Keys keys, int64_t key) {
    switch (keys) {
    case Keys::alike: return 3;
    case Keys::rising_late: return key % 1000 == 777 ? 15.0f : 3 + 0.01f * static_cast<float>(key / 64 % 50);
    case Keys::first_tile_large: return key < kKeyTile ? 40 : 2;
    case Keys::first_tile_low: return key < kKeyTile ? 40 : 1;
    }
    return 0;
}

std::vector<float> values_of(const Problem& problem, Keys keys) {
    std::mt19937 source(7);
    std::uniform_real_distribution<float> draw(-1, 1);
    std::vector<float> values;
    const bool low = keys == Keys::first_tile_low; // all scores are negative, most of all in the first tile
    for (int64_t batch = 0; batch < problem.batches; ++batch) {
        for (size_t i = 0; i < problem.floats_in(problem.heads * problem.queries); ++i)
            values.push_back(low ? std::fabs(draw(source)) : 3 * draw(source));
        for (int64_t row = 0; row < problem.kv_heads * problem.keys; ++row)
            for (int64_t x = 0; x < problem.dim; ++x) {
                const float drawn = draw(source);
                values.push_back(magnitude(keys, row % problem.keys) * (low ? -std::fabs(drawn) : drawn));
            }
        for (size_t i = 0; i < problem.floats_in(problem.kv_heads * problem.keys); ++i) values.push_back(draw(source));
    }
    return values;
}

// Moves K and V of a launch into pages, in random order; keys beyond the lengths are poisoned and in no page.
Scratch put_into_pages(Launch& launch, int64_t page_keys, const std::vector<int32_t>& lengths, cudaStream_t stream) {
    const Problem& problem = launch.problem;
    const int64_t columns = (problem.keys + page_keys - 1) / page_keys;
    std::vector<int32_t> table(static_cast<size_t>(problem.batches * columns));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(5));
    const auto count = static_cast<int64_t>(table.size());
    const int64_t head = page_keys * problem.dim;
    const size_t tensor_floats = static_cast<size_t>(count * problem.kv_heads * head);
    Scratch memory = make_scratch(2 * tensor_floats * sizeof(float) + table.size() * sizeof(int32_t));
    HW4_CUDA(cudaMemsetAsync(memory.get(), 0xff, 2 * tensor_floats * sizeof(float), stream));
    auto* const floats = static_cast<float*>(memory.get());
    for (int64_t batch = 0; batch < problem.batches; ++batch)
        for (int64_t column = 0; column < columns; ++column) {
            int32_t& page = table[static_cast<size_t>(batch * columns + column)];
            const int64_t length = std::min<int64_t>(lengths[static_cast<size_t>(batch)], problem.keys);
            const int64_t rows = std::min(length - column * page_keys, page_keys);
            if (rows <= 0) {
                page = -7;
                continue;
            }
            for (int64_t i = 0; i < 2 * problem.kv_heads; ++i) {
                const int64_t in_pages = (page * problem.kv_heads + i / 2) * head;
                HW4_CUDA(cudaMemcpy2DAsync(floats + i % 2 * tensor_floats + in_pages, problem.row_bytes(),
                                           launch.in[1 + i % 2].at(batch, i / 2, column * page_keys),
                                           static_cast<size_t>(launch.in[1].row) * sizeof(float), problem.row_bytes(),
                                           static_cast<size_t>(rows), cudaMemcpyDeviceToDevice, stream));
            }
        }
    auto* const on_card = reinterpret_cast<int32_t*>(floats + 2 * tensor_floats);
    HW4_CUDA(cudaMemcpyAsync(on_card, table.data(), table.size() * sizeof(int32_t), cudaMemcpyHostToDevice, stream));
    HW4_CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < 2; ++i)
        launch.in[1 + i] = {floats + i * tensor_floats, Element::float32, problem.kv_heads * head, head, problem.dim};
    launch.pages = {on_card, page_keys, columns, count};
    return memory;
}

// `values`: values_of(problem, keys), which take longer to generate than attention takes.
void expect_bytes(Problem problem, Keys keys, const std::vector<float>& values, const std::vector<int32_t>& lengths,
                  int64_t page_keys = 0, bool in_a_graph = false) {
    const Kernel& kernel = *find_kernel("split_keys");
    problem.by_lengths = !lengths.empty();
    problem.by_pages = page_keys > 0;
    const Plan plan = plan_of(kernel, problem, current_device());
    ASSERT_EQ(plan.why_not, "");
    const Scratch on_card = make_scratch(lengths.size() * sizeof(int32_t));
    HW4_CUDA(cudaMemcpy(on_card.get(), lengths.data(), lengths.size() * sizeof(int32_t), cudaMemcpyHostToDevice));
    const auto launch = [&](Launch asked, cudaStream_t stream) {
        if (problem.by_lengths) asked.lengths = static_cast<const int32_t*>(on_card.get());
        Scratch pages;
        if (problem.by_pages) pages = put_into_pages(asked, page_keys, lengths, stream);
        if (in_a_graph) HW4_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        kernel.launch(asked, stream);
        if (in_a_graph) {
            cudaGraph_t graph = nullptr;
            cudaGraphExec_t replay = nullptr;
            HW4_CUDA(cudaStreamEndCapture(stream, &graph));
            HW4_CUDA(cudaGraphInstantiate(&replay, graph, 0));
            for (int i = 0; i < 2; ++i)
                HW4_CUDA(cudaGraphLaunch(replay, stream)); // the second time over its own scratch
            HW4_CUDA(cudaStreamSynchronize(stream));
            HW4_CUDA(cudaGraphExecDestroy(replay));
            HW4_CUDA(cudaGraphDestroy(graph));
        }
        HW4_CUDA(cudaStreamSynchronize(stream)); // before the pages are freed
    };
    std::vector<RowStatistics> statistics(static_cast<size_t>(problem.output_rows()));
    const std::vector<float> got = attend_poisoned(problem, values, plan.scratch_bytes, launch, &statistics);
    for (int64_t batch = 0; batch < problem.batches; ++batch) {
        Problem one = problem.of_batches(1);
        one.by_lengths = one.by_pages = false;
        if (problem.by_lengths) one.keys = std::clamp<int64_t>(lengths[static_cast<size_t>(batch)], 0, problem.keys);
        const std::vector<float> in = batch_of(problem, values, batch, one.keys);
        std::vector<float> out(problem.batch_output_floats());
        std::vector<RowStatistics> rows(static_cast<size_t>(problem.batch_output_rows()));
        if (one.keys > 0) compute_expected(kF32, one, in.data(), out.data(), rows.data()); // otherwise all rows are 0
        EXPECT_EQ(std::memcmp(out.data(), got.data() + batch * out.size(), out.size() * sizeof(float)), 0)
            << "batch " << batch << ", keys " << one.keys << ", kind " << static_cast<int>(keys);
        EXPECT_EQ(std::memcmp(rows.data(), statistics.data() + batch * rows.size(), rows.size() * sizeof(rows[0])), 0)
            << "statistics of batch " << batch;
    }
}

Problem problem_of(int64_t batches, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys, int64_t dim) {
    return hw4::problem_of({batches, heads, kv_heads, queries, keys, dim}, queries > 1 ? Mask::causal : Mask::none);
}

TEST(SplitKeys, GivesTheBytesWhereverTheReferenceChanges) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Keys keys : {Keys::alike, Keys::rising_late, Keys::first_tile_large, Keys::first_tile_low})
        for (const Problem& problem :
             {problem_of(1, 1, 1, 1, 5000, 128), problem_of(2, 8, 2, 3, 1000, 64), problem_of(1, 16, 1, 1, 3000, 33),
              problem_of(1, 3, 1, 5, 2100, 256), problem_of(80, 8, 4, 1, 300, 64), problem_of(70, 1, 1, 1, 2150, 128),
              problem_of(8, 32, 8, 1, 1100, 64)})
            expect_bytes(problem, keys, values_of(problem, keys), {});
}

TEST(SplitKeys, TakesBatchesOfAnyLengthInPagesToo) {
    HW4_SKIP_WITHOUT_GPU();
    std::mt19937 source(3);
    for (const Keys keys : {Keys::alike, Keys::rising_late})
        for (const Problem& problem :
             {problem_of(3, 4, 1, 1, 700, 128), problem_of(40, 8, 4, 1, 1100, 64), problem_of(4, 8, 1, 1, 4400, 128),
              problem_of(5, 2, 2, 3, 900, 40), problem_of(300, 2, 1, 1, 130, 32)}) {
            std::vector<int32_t> lengths;
            for (int64_t i = 0; i < problem.batches; ++i)
                lengths.push_back(static_cast<int32_t>(1 + source() % static_cast<uint32_t>(problem.keys)));
            lengths.front() = 1;
            lengths.back() = static_cast<int32_t>(problem.keys);
            if (problem.batches > 3) { // outside the range: taken as 0 and as all keys
                lengths[1] = -5;
                lengths[2] = 0;
                lengths[3] = static_cast<int32_t>(problem.keys) + 100;
            }
            const std::vector<float> values = values_of(problem, keys);
            for (const int64_t page_keys : {0, 16, 32, 64, 256})
                expect_bytes(problem, keys, values, lengths, page_keys);
        }
}

TEST(SplitKeys, GivesTheBytesWhenAGraphIsReplayed) {
    HW4_SKIP_WITHOUT_GPU();
    const Problem problem = problem_of(1, 8, 2, 1, 2000, 64);
    for (const Keys keys : {Keys::alike, Keys::rising_late})
        expect_bytes(problem, keys, values_of(problem, keys), {}, 0, true);
}

// Windows count back from each length's end. A unit's rows begin in different tiles, and references change later.
TEST(SplitKeys, TakesWindowsOfAnyLength) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Keys keys : {Keys::alike, Keys::rising_late})
        for (Problem problem :
             {problem_of(1, 1, 1, 1, 70000, 128), problem_of(3, 4, 1, 1, 700, 128), problem_of(40, 8, 4, 1, 1100, 64),
              problem_of(5, 2, 2, 3, 900, 40), problem_of(1, 8, 1, 40, 3000, 64), problem_of(2, 8, 1, 40, 3000, 64)}) {
            const std::vector<float> values = values_of(problem, keys);
            std::vector<int32_t> lengths;
            for (int64_t i = 0; i < problem.batches; ++i)
                lengths.push_back(static_cast<int32_t>(1 + (problem.keys - 1) * (i + 1) / problem.batches));
            lengths.front() = 45;
            problem.mask = Mask::causal;
            for (const int64_t window : {1, 40, 500, 65000}) {
                problem.window = window;
                expect_bytes(problem, keys, values, {});
                expect_bytes(problem, keys, values, lengths);
            }
        }
}

} // namespace
} // namespace hw4::gpu
