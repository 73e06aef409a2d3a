// The kernels of bf16 and fp16, forward and backward: as close to float64 as their arithmetic allows, and always the
// same bytes for a row or for a head's gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/each_kernel.h"
#include "tests/support/file_to_file.h"
#include "tests/support/half_bound.h"
#include "tests/support/half_gradients.h"
#include "tests/support/problems.h"
#include "tests/support/scattered.h"
#include "tests/support/settings.h"

namespace hw4::gpu {
namespace {

std::vector<Kernel> half_kernels(std::initializer_list<const Operation*> operations) {
    std::vector<Kernel> list;
    for (const Kernel& kernel : kernels())
        if (kernel.under->compared == Compared::bound &&
            std::count(operations.begin(), operations.end(), kernel.does) > 0)
            list.push_back(kernel);
    return list;
}

class HalfKernel : public KernelTest {
protected:
    Element element() const { return contract().element; }
    bool is_backward() const { return GetParam().does == &kBackward; }
    Problem own(const Problem& problem) const { return problem.of_operation(*GetParam().does); }

    template <class Run>
    std::vector<float> attend(const Problem& problem, const std::vector<float>& values, const Run& run) const {
        // Backward: this writes all scratch memory for initcheck too, which does not see writes of the copy engine.
        const auto launch = [&](const Launch& asked, cudaStream_t stream) {
            if (is_backward()) HW4_CUDA(cudaMemsetAsync(asked.scratch, 0xff, asked.scratch_bytes, stream));
            run(asked, stream);
        };
        return attend_poisoned(problem, values, plan(problem).scratch_bytes, launch);
    }
    std::vector<float> attend(const Problem& problem, const std::vector<float>& values) const {
        return attend(problem, values, launcher_of(GetParam()));
    }
    // As on a GPU with fewer multiprocessors: blocks take more jobs and, in forward, have more groups.
    std::vector<float> attend_on(int multiprocessors, const Problem& problem, const std::vector<float>& values) const {
        return attend(problem, values, [&](Launch launch, cudaStream_t stream) {
            launch.device.multiprocessors = multiprocessors;
            GetParam().launch(launch, stream);
        });
    }
    std::vector<float> attend_twice(const Problem& problem, const std::vector<float>& values) const {
        const std::vector<float> out = attend(problem, values);
        if (!is_backward()) EXPECT_TRUE(same_bytes(out, attend_on(1, problem, values)));
        return out;
    }
    // Does nothing where the kernel cannot take the problem.
    void expect_within_bound(const Problem& problem, const std::vector<float>& values) const {
        if (!plan(problem).why_not.empty()) return;
        const std::vector<float> out = attend_twice(problem, values);
        EXPECT_TRUE(is_backward() ? HalfGradients(problem, element(), values).hold(out)
                                  : HalfRows(problem, element(), values).hold(out));
    }
    // The problem becomes one of the kernel's own operation.
    void expect_within_bound(const Problem& of_any, const Distribution& kind = CaseKind::uniform) const {
        const Problem problem = own(of_any);
        if (!plan(problem).why_not.empty()) return;
        const std::vector<float> values = values_of(problem, kind);
        const std::vector<float> out = attend_twice(problem, values);
        EXPECT_TRUE(is_backward() ? in_float64<HalfGradients>(problem, kind, values).hold(out)
                                  : in_float64<HalfRows>(problem, kind, values).hold(out));
    }
    // Computed once for all kernels of an element, because float64 takes longer than the kernels.
    template <class Exact>
    Exact& in_float64(const Problem& problem, const Distribution& kind, const std::vector<float>& values) const {
        using Key = std::tuple<std::string, std::string, Element>;
        static std::map<Key, Exact> known;
        const Key key{sizes_of(problem).second, spelling_of(kind), element()};
        const auto found = known.find(key);
        if (found != known.end()) return found->second;
        return known.emplace(key, Exact(problem, element(), values)).first->second;
    }
    void expect_within_bound_of_each_mask(Problem problem, const Distribution& kind = CaseKind::uniform) const {
        for (const Mask mask : kEveryMask) {
            problem.mask = mask;
            expect_within_bound(problem, kind);
        }
    }
};

constexpr int64_t kDims[] = {1, 8, 33, 64, 96, 100, 128, 200, 256}; // every row size of the kernels, full and partial

TEST_P(HalfKernel, IsWithinTheBound) {
    std::vector<int64_t> lengths = {1, 63, 65, 128, 193};
    if (soaks()) lengths.insert(lengths.end(), {2, 64, 127, 129, 191, 192, 200});
    for (const int64_t dim : kDims) {
        for (const int64_t n : lengths) expect_within_bound_of_each_mask({1, n, dim});
        if (is_backward()) continue; // float64 takes long
        for (const int64_t n : {385, 1000}) expect_within_bound_of_each_mask({1, n, dim});
    }
}

// The diagonal at every place of a tile, rows that see no key, keys that no row sees, and blocks of such keys.
TEST_P(HalfKernel, IsWithinTheBoundWhereOneLengthIsLonger) {
    std::vector<int64_t> lengths = {1, 193};
    if (soaks()) lengths.push_back(70);
    for (const int64_t dim : {33, 64, 128, 256})
        for (const int64_t n : lengths)
            for (const int64_t more : {1, 63, 65, 128, 300}) {
                expect_within_bound_of_each_mask(causal_problem(n, n + more, dim));
                expect_within_bound_of_each_mask(causal_problem(n + more, n, dim));
            }
}

TEST_P(HalfKernel, IsWithinTheBoundOfEveryHead) {
    for (const int64_t dim : {1, 37, 64, 128, 256})
        for (const int64_t keys : {1, 70, 200})
            expect_within_bound_of_each_mask(with_heads(causal_problem(70, keys, dim), 2, 6, 2));
}

TEST_P(HalfKernel, IsWithinTheBoundOfManyBatches) {
    for (const Problem& problem :
         {Problem{14000, 8, 4}, Problem{14000, 1, 1}, Problem{is_backward() ? 300 : 700, 130, 64}})
        expect_within_bound(problem);
}

// More tiles than stages, and blocks of keys that wait for others; in forward also more jobs than blocks, long and
// short jobs, of which some rows are compared.
TEST_P(HalfKernel, IsWithinTheBoundWhenTheCardIsFull) {
    for (const int64_t dim : {64, 128})
        expect_within_bound_of_each_mask(is_backward() ? with_heads(causal_problem(700, 700, dim), 1, 2, 1)
                                                       : with_heads(causal_problem(2100, 2100, dim), 2, 16, 4));
}

TEST_P(HalfKernel, IsWithinTheBoundOnEveryKind) {
    std::vector<CaseKind> kinds = {CaseKind::equal, CaseKind::negative, CaseKind::vzero, CaseKind::normal};
    if (!is_backward())
        for (const CaseKind kind : {CaseKind::spread, CaseKind::denormal, CaseKind::fading, CaseKind::climb})
            kinds.push_back(kind);
    for (Problem problem : {Problem{1, 300, 64}, Problem{1, 200, 33}, Problem{1, 200, 128}})
        for (const Mask mask : kEveryMask)
            for (const CaseKind kind : kinds) {
                problem.mask = mask;
                const std::vector<float> values = values_of(own(problem), kind);
                const auto fits = [&](float x) { return std::fabs(x) < overflow_of(element()); };
                if (std::all_of(values.begin(), values.end(), fits)) expect_within_bound(own(problem), values);
            }
}

TEST_P(HalfKernel, TakesEachOperandWhereItIs) {
    for (const int64_t dim : {1, 37, 64, 100, 128})
        for (const int64_t keys : {70, 171, 20}) {
            const Problem problem = own(with_heads(causal_problem(70, keys, dim), 2, 4, 2));
            if (!plan(problem).why_not.empty()) continue;
            const AttentionCase& test = reference_case(problem, CaseKind::uniform, 5, contract());
            EXPECT_TRUE(same_bytes(attend(problem, test.qkv), attend_scattered(GetParam(), test))) << test.name;
        }
}

TEST_P(HalfKernel, GivesABatchAmongOthersTheSameBytes) {
    for (const int64_t dim : {20, 64, 128})
        for (const Mask mask : kEveryMask) {
            const Problem problem = own(problem_of({64, 2, 1, 200, 300, dim}, mask));
            const std::vector<float> values = values_of(problem);
            const std::vector<float> out = attend(problem, values);
            const auto in = static_cast<int64_t>(problem.batch_input_floats());
            const auto there = static_cast<int64_t>(problem.batch_output_floats());
            for (const int64_t batch : {0, 1, 31, 63})
                EXPECT_TRUE(same_bytes(
                    {out.begin() + batch * there, out.begin() + (batch + 1) * there},
                    attend(problem.of_batches(1), {values.begin() + batch * in, values.begin() + (batch + 1) * in})))
                    << batch;
        }
}

// Any block may take a job or wait for another block: 25 runs for each mask and size.
TEST_P(HalfKernel, GivesTheSameBytesAHundredTimes) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : {64, 128}) {
            const Problem problem = own(problem_of({4, 8, 4, 700, 700, dim}, mask));
            const std::vector<float> values = values_of(problem, is_backward() ? CaseKind::uniform : CaseKind::spread);
            const int multiprocessors = is_backward() ? current_device().multiprocessors : 7; // few: from a queue
            const auto run = [&] { return attend_on(multiprocessors, problem, values); };
            const std::vector<float> first = run();
            for (int i = 1; i < 25; ++i) ASSERT_TRUE(same_bytes(first, run())) << i;
        }
}

// In backward also fewer than the blocks that add to one sum.
TEST_P(HalfKernel, GivesTheSameBytesOnFewerMultiprocessors) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : {64, 128}) {
            const Problem problem = own(problem_of({1, 4, 2, 1500, 1500, dim}, mask));
            const std::vector<float> values = values_of(problem);
            const std::vector<float> all = attend(problem, values);
            for (const int multiprocessors : {1, 2, 7})
                EXPECT_TRUE(same_bytes(all, attend_on(multiprocessors, problem, values)));
        }
}

// For compute-sanitizer (make gpu-check).
TEST_P(HalfKernel, SanitizerShapes) {
    if (is_backward()) {
        for (const int64_t dim : {64, 128, 37, 200})
            expect_within_bound_of_each_mask(with_heads(causal_problem(66, 140, dim), 1, 2, 1));
        expect_within_bound_of_each_mask(causal_problem(300, 20, 64));
        expect_within_bound_of_each_mask({2, 1, 1});
        return;
    }
    for (const Problem& problem : {Problem{1, 70, 64}, Problem{2, 33, 37}, Problem{1, 130, 128}, Problem{1, 5, 1}})
        expect_within_bound(problem);
    for (const Problem& problem :
         {causal_problem(200, 200, 64), causal_problem(40, 7, 33), with_heads(causal_problem(33, 140, 128), 1, 2, 1)})
        expect_within_bound(problem, CaseKind::spread);
}

INSTANTIATE_TEST_SUITE_P(Every, HalfKernel, testing::ValuesIn(half_kernels({&kForward, &kBackward})),
                         kernel_of_instance);

// ---- Backward

class HalfBackwardKernel : public HalfKernel {};

// Scores so far from 0 that the kernel subtracts an origin: a constant added to all scores of a row changes nothing.
TEST_P(HalfBackwardKernel, IsFiniteWhereScoresAreFar) {
    for (const int64_t dim : {33, 64, 128}) {
        const Problem problem = own(causal_problem(200, 200, dim));
        std::vector<float> near = values_of(problem);
        for (int64_t row = 0; row < 400; ++row) near[static_cast<size_t>(row * dim)] = row < 200 ? 0.0f : 128.0f;
        std::vector<float> far = near;
        for (int64_t row = 0; row < 200; row += 3) far[static_cast<size_t>(row * dim)] = 256.0f; // in Q
        const auto columns = static_cast<size_t>(dim);
        const std::vector<float> wanted = attend(problem, near);
        const std::vector<float> got = attend(problem, far);
        for (size_t row = 0; row < 200; ++row) // in dQ: the near rows must not change
            if (row % 3 != 0)
                EXPECT_TRUE(std::equal(wanted.begin() + static_cast<int64_t>(row * columns),
                                       wanted.begin() + static_cast<int64_t>((row + 1) * columns),
                                       got.begin() + static_cast<int64_t>(row * columns)))
                    << row;
        for (const float x : got) ASSERT_TRUE(std::isfinite(x)) << dim;
    }
}

INSTANTIATE_TEST_SUITE_P(Every, HalfBackwardKernel, testing::ValuesIn(half_kernels({&kBackward})), kernel_of_instance);

// ---- Forward

class HalfForwardKernel : public HalfKernel {};

TEST_P(HalfForwardKernel, GivesTheValueOfTheLargestOfHugeScores) {
    const std::vector<int> powers =
        element() == Element::fp16 ? std::vector<int>{16, 20, 23} : std::vector<int>{16, 24, 30, 60, 110};
    for (const int64_t dim : {1, 33, 64, 128})
        for (const int power : powers)
            expect_value_of_the_largest(130, dim, power, [&](const Problem& problem, const std::vector<float>& values) {
                return attend(problem, values);
            });
}

// Scores that are adjacent floats and equal after scaling: the row is still the value of the largest score, and no
// weight is infinite.
TEST_P(HalfForwardKernel, GivesTheValueOfTheLargestOfNeighbouringScores) {
    constexpr int64_t kKeys = 200;
    for (const int64_t dim : {33, 64, 128})
        for (const float far : {32768.0f, 40960.0f, 57344.0f})
            for (const int64_t order : {1, 7, 199}) {
                const Problem problem = Problem(1, 70, dim).of_keys(kKeys);
                std::vector<float> values(problem.floats_in(problem.input_rows()));
                each_query(values, problem, [&](float* q, int64_t) {
                    q[0] = 32768;
                    q[1] = 2;
                });
                int64_t winner = 0;
                each_key(values, problem, [&](float* key, float* value, int64_t index) {
                    key[0] = far;
                    key[1] = static_cast<float>(64 * (index * order % kKeys)); // scores 128 apart, near 2^30
                    for (int64_t t = 0; t < dim; ++t) value[t] = static_cast<float>(64 + (index + t) % 32);
                    if (index * order % kKeys == kKeys - 1) winner = index;
                });
                const std::vector<float> out = attend(problem, values);
                for (int64_t t = 0; t < dim; ++t)
                    ASSERT_EQ(out[static_cast<size_t>(t)], static_cast<float>(64 + (winner + t) % 32))
                        << dim << " " << far << " " << order;
            }
}

// Rows with scores all far from 0 equal rows with scores shifted near 0; rows beside them do not change.
TEST_P(HalfForwardKernel, GivesRowsThatAreFarWhatTheyWouldBeNear) {
    for (const int64_t dim : {33, 64, 128})
        for (const float far : {32768.0f, -32768.0f}) {
            const Problem problem(1, 200, dim);
            std::vector<float> near = values_of(problem, CaseKind::uniform);
            each_query(near, problem, [&](float* q, int64_t) {
                std::fill_n(q, dim, 0.0f);
                q[1] = 1;
            });
            each_key(near, problem, [&](float* key, float*, int64_t index) {
                key[0] = 128;
                key[1] = static_cast<float>(index * 7 % 32) / 4;
            });
            std::vector<float> mixed = near;
            each_query(mixed, problem, [&](float* q, int64_t query) { q[0] = query % 3 == 0 ? far / 128 : 0; });
            const std::vector<float> out = attend(problem, mixed);
            EXPECT_TRUE(HalfRows(problem, element(), near).hold(out)) << far;
            const std::vector<float> beside = attend(problem, near);
            for (int64_t row = 0; row < problem.queries; ++row)
                if (row % 3 != 0)
                    EXPECT_TRUE(same_bytes(row_of(beside, problem, row), row_of(out, problem, row))) << row;
        }
}

// Weights that are rounded up must not make the mean of the largest numbers infinite.
TEST_P(HalfForwardKernel, StaysFiniteAtTheEndOfTheType) {
    const float largest = element() == Element::fp16 ? 65504.0f : 0x1.fep40f;
    for (const int64_t dim : {16, 128}) {
        const Problem problem(1, 300, dim);
        std::vector<float> values = values_of(problem, CaseKind::uniform);
        each_key(values, problem, [&](float*, float* value, int64_t) {
            for (int64_t t = 0; t < dim; ++t) value[t] = t % 2 == 0 ? largest : -largest;
        });
        for (const float x : attend(problem, values)) ASSERT_TRUE(std::isfinite(x));
        expect_within_bound(problem, values);
    }
}

TEST_P(HalfForwardKernel, GivesZeroToRowsWithoutKeys) {
    for (const int64_t dim : {33, 64, 128}) {
        const Problem problem = causal_problem(300, 20, dim);
        std::vector<RowStatistics> rows;
        const std::vector<float> out = attend_poisoned(problem, values_of(problem, CaseKind::uniform),
                                                       plan(problem).scratch_bytes, launcher_of(GetParam()), &rows);
        const auto blind = static_cast<size_t>(280 * dim);
        EXPECT_TRUE(same_bytes(std::vector<float>(blind), {out.begin(), out.begin() + static_cast<int64_t>(blind)}));
        EXPECT_TRUE(same_statistics(std::vector<RowStatistics>(280), {rows.begin(), rows.begin() + 280}));
        EXPECT_GT(rows[280].l, 0);
    }
}

TEST_P(HalfForwardKernel, TellsWhatRowsAddUpTo) {
    for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread, CaseKind::equal})
        for (Problem problem : {Problem{2, 130, 64}, Problem{1, 200, 37}, Problem{1, 90, 128}, Problem{1, 70, 256}})
            for (const Mask mask : kEveryMask) {
                problem.mask = mask;
                if (!plan(problem).why_not.empty()) continue;
                const std::vector<float> values = values_of(problem, kind);
                std::vector<RowStatistics> rows;
                const std::vector<float> out =
                    attend_poisoned(problem, values, plan(problem).scratch_bytes, launcher_of(GetParam()), &rows);
                EXPECT_TRUE(same_bytes(attend(problem, values), out)) << "the same, asked for statistics or not";
                HalfRows(problem, element(), values).expect_logsumexps(contract(), rows);
            }
}

// A row's bytes depend only on its query and the keys that it sees.

// With the mask each row has another length; it must equal a run with only the keys that it sees.
TEST_P(HalfForwardKernel, GivesARowBesideOtherLengthsTheSameBytes) {
    for (const int64_t dim : {20, 64, 128})
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread}) {
            const Problem problem = causal_problem(400, 400, dim);
            const std::vector<float> values = values_of(problem, kind);
            const std::vector<float> out = attend(problem, values);
            for (const int64_t query : {0, 1, 63, 64, 127, 128, 191, 192, 255, 256, 300, 399}) {
                const Problem alone = Problem(1, 1, dim).of_keys(query + 1);
                const std::vector<float> one = query_of(problem, values, query, alone.keys);
                EXPECT_TRUE(same_bytes(row_of(out, problem, query), attend(alone, one))) << query;
            }
        }
}

TEST_P(HalfForwardKernel, GivesSomeQueriesAfterOthersTheSameBytes) {
    for (const int64_t dim : {37, 64, 128})
        for (const int64_t keys : {kQueryStep + 70, int64_t{100}})
            for (const Mask mask : kEveryMask) {
                const Problem problem = problem_of({2, 2, 1, kQueryStep + 70, keys, dim}, mask);
                const std::vector<float> values = values_of(problem, CaseKind::uniform);
                const std::vector<float> parts =
                    attend_poisoned(problem, values, plan(problem).scratch_bytes, in_query_steps(GetParam()));
                EXPECT_TRUE(same_bytes(attend(problem, values), parts));
            }
}

// Any number of chunks, streams and pieces gives the same bytes, within the bound.
TEST_P(HalfForwardKernel, GivesTheSameBytesFromFileToFile) {
    const AttentionCase test({11, 70, 20}, CaseKind::spread, 4, contract());
    EngineOptions options;
    options.contract = &contract();
    options.kernel = GetParam().name;
    const std::vector<float> out = attend(test.problem, test.qkv);
    EXPECT_TRUE(HalfRows(test.problem, element(), test.qkv).hold(out));
    const std::string expected = hw4::bytes_of(out.data(), out.size());
    for (const int streams : {1, 3})
        for (const int64_t chunk : {1, 4, 11}) {
            options.streams = streams;
            options.chunk_batches = chunk;
            options.copies = (chunk == 4) == (streams == 1) ? Copies::two_d : Copies::linear;
            EXPECT_TRUE(from_file_to_file(test, options, {}, make_engine) == expected)
                << streams << " streams, " << chunk << " batches, " << name_of(options.copies);
        }
}

INSTANTIATE_TEST_SUITE_P(Every, HalfForwardKernel, testing::ValuesIn(half_kernels({&kForward})), kernel_of_instance);

} // namespace
} // namespace hw4::gpu
