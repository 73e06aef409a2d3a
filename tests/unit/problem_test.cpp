// Sizes of problems, the places of their rows, the keys that a mask leaves; the shares of a case that ranks get.
#include <gtest/gtest.h>

#include <vector>

#include "src/problem/mask.h"
#include "src/problem/problem.h"
#include "src/problem/tensor.h"
#include "src/run/shares.h"
#include "tests/support/attention_case.h"
#include "tests/support/problems.h"

namespace hw4 {
namespace {

TEST(Problem, SizesOfASmallCase) {
    const Problem problem{2, 3, 5};
    EXPECT_EQ(problem.batch_output_floats(), 15u);
    EXPECT_EQ(problem.batch_input_floats(), 45u);
    EXPECT_EQ(problem.batch_input_bytes(), 180u);
    EXPECT_EQ(problem.batch_output_bytes(), 60u);
    EXPECT_EQ(problem.output_bytes(), 120u);
    EXPECT_EQ(problem.flops(), 4.0 * 2 * 3 * 3 * 5);
}

// The largest case that a reader accepts has just under 2^63 bytes.
TEST(Problem, SizesOfTheLargestCase) {
    const Problem problem{1, 0x7fffffff, 0x15555555};
    const size_t floats = size_t{0x7fffffff} * 0x15555555;
    EXPECT_EQ(problem.batch_input_bytes() / 12, floats);
    EXPECT_LT(problem.batch_input_bytes(), size_t{1} << 63);
    EXPECT_EQ(problem.output_bytes(), 4 * floats);
    EXPECT_EQ(Problem(1 << 10, int64_t{1} << 30, 1 << 6).flops(), 0x1p78);
}

Problem grouped() { return problem_of({3, 4, 2, 5, 7, 2}); }

TEST(Problem, OfSeveralHeadsAndTwoLengths) {
    const Problem problem = grouped();
    EXPECT_EQ(problem.units(), 12);
    EXPECT_EQ(problem.batch_input_rows(), 4 * 5 + 2 * 2 * 7);
    EXPECT_EQ(problem.batch_output_rows(), 4 * 5);
    EXPECT_EQ(problem.input_rows(), 3 * 48);
    EXPECT_EQ(problem.output_bytes(), 3u * 20 * 2 * 4);
    EXPECT_EQ(problem.flops(), 4.0 * 12 * 5 * 7 * 2);
    EXPECT_EQ(problem.of_batches(2).batches, 2);
    EXPECT_EQ(problem.of_batches(2).units(), 8);
}

TEST(Problem, OfTheBackwardPassHasItsOwnRows) {
    Problem problem = grouped();
    problem.operation = &kBackward;
    EXPECT_EQ(problem.batch_input_rows(), 2 * 20 + 2 * 14);
    EXPECT_EQ(problem.batch_output_rows(), 20 + 2 * 14);
    EXPECT_EQ(problem.flops(), 10.0 * 12 * 5 * 7 * 2);
}

// Every row of the file is at one place of one operand, in the file's order.
TEST(Operands, LieAsInTheFile) {
    const Problem problem = grouped();
    constexpr size_t kRow = 6; // with padding, d = 2
    std::vector<float> memory(static_cast<size_t>(problem.input_rows()) * kRow);
    float row = 0;
    for (int64_t batch = 0; batch < problem.batches; ++batch)
        for (size_t i = 0; i < kForward.inputs.size(); ++i) {
            const Operand& operand = kForward.inputs[i];
            const Matrix<float> matrix = operand_at(problem, kForward.inputs, i, memory.data(), kRow);
            EXPECT_EQ(matrix.row, kRow);
            for (int64_t head = 0; head < problem.heads_of(operand); ++head)
                for (int64_t r = 0; r < problem.head_rows(operand); ++r)
                    matrix.of(batch, head)[static_cast<size_t>(r) * matrix.row] = ++row;
        }
    for (size_t i = 0; i < memory.size(); ++i)
        EXPECT_EQ(memory[i], i % kRow == 0 ? static_cast<float>(i / kRow + 1) : 0.0f) << i;
}

std::vector<int64_t> seen_under(Mask mask, int64_t queries, int64_t keys) {
    std::vector<int64_t> seen;
    for (int64_t query = 0; query < queries; ++query) seen.push_back(visible_keys(mask, queries, keys, query));
    return seen;
}

using Counts = std::vector<int64_t>;

TEST(MaskRule, CausalLetsAQuerySeeItselfAndWhatWasBefore) {
    EXPECT_EQ(seen_under(Mask::none, 3, 5), (Counts{5, 5, 5}));
    EXPECT_EQ(seen_under(Mask::causal, 4, 4), (Counts{1, 2, 3, 4}));
    EXPECT_EQ(seen_under(Mask::causal, 1, 1), (Counts{1}));
}

TEST(MaskRule, CausalIsAlignedAtTheLastQueryAndTheLastKey) {
    EXPECT_EQ(seen_under(Mask::causal, 3, 5), (Counts{3, 4, 5}));
    EXPECT_EQ(seen_under(Mask::causal, 1, 5), (Counts{5}));
    EXPECT_EQ(seen_under(Mask::causal, 5, 3), (Counts{0, 0, 1, 2, 3}));
    EXPECT_EQ(seen_under(Mask::causal, 3, 1), (Counts{0, 0, 1}));
}

TEST(MaskRule, ItsCountsAreThoseOfTheQueriesOneByOne) {
    for (const Mask mask : kEveryMask)
        for (int64_t queries = 1; queries <= 6; ++queries)
            for (int64_t keys = 1; keys <= 6; ++keys) {
                double pairs = 0;
                int64_t blind = 0;
                for (const int64_t seen : seen_under(mask, queries, keys)) {
                    pairs += static_cast<double>(seen);
                    blind += seen == 0;
                }
                EXPECT_EQ(visible_pairs(mask, queries, keys), pairs) << name_of(mask) << queries << " " << keys;
                EXPECT_EQ(blind_queries(mask, queries, keys), blind) << name_of(mask) << queries << " " << keys;
            }
}

struct Lengths {
    int64_t queries;
    int64_t keys;
};

Problem problem_of(int64_t batches, int64_t heads, int64_t kv_heads, const Lengths& lengths, Mask mask,
                   const Operation& operation = kForward) {
    return hw4::problem_of({batches, heads, kv_heads, lengths.queries, lengths.keys, 2}, mask, operation);
}

// Ragged lengths, more keys than queries and more queries than keys.
std::vector<Problem> problems() {
    std::vector<Problem> list;
    for (const Operation* operation : kOperations)
        for (const Mask mask : kEveryMask)
            for (const Lengths& lengths : {Lengths{700, 700}, {300, 555}, {515, 130}, {1, 1}, {128, 128}})
                for (const auto& [batches, heads, kv_heads] : {std::array<int64_t, 3>{1, 1, 1}, {3, 1, 1}, {2, 6, 2}})
                    list.push_back(problem_of(batches, heads, kv_heads, lengths, mask, *operation));
    return list;
}

std::string name(const Problem& problem, int shares) {
    return sizes_of(problem).second + " in " + std::to_string(shares);
}

TEST(CaseShares, FollowOneAnother) {
    for (const Problem& problem : problems())
        for (const int shares : {1, 2, 3, 5, 16}) {
            SCOPED_TRACE(name(problem, shares));
            int64_t end_before = 0;
            for (const QueryRows& rows : divide(problem, shares)) {
                EXPECT_EQ(rows.first, end_before);
                end_before = rows.end;
            }
            EXPECT_EQ(end_before, problem.units() * problem.queries);
        }
}

TEST(CaseShares, HaveEveryOutputRowOnceAndEachAtItsPlace) {
    for (const Problem& problem : problems())
        for (const Gradients gradients : {Gradients::whole, Gradients::cut})
            for (const int shares : {1, 2, 3, 5, 16}) {
                SCOPED_TRACE(name(problem, shares));
                std::vector<int> seen(static_cast<size_t>(problem.output_rows()));
                const std::vector<std::vector<CasePart>> divided = divide_into_parts(problem, shares, gradients);
                EXPECT_EQ(divided.size(), static_cast<size_t>(shares));
                for (const std::vector<CasePart>& parts : divided)
                    for (const CasePart& part : parts)
                        part.each_stretch(part.problem.operation->outputs, 0, part.problem.output_rows(),
                                          [&](int64_t, int64_t at, int64_t count) {
                                              for (int64_t row = at; row < at + count; ++row)
                                                  ++seen.at(static_cast<size_t>(row));
                                          });
                EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
            }
}

// Asking for one row after another gives the same places as asking for all at once.
TEST(CaseShares, StretchesDoNotDependOnHowRowsAreAskedFor) {
    const Problem problem = problem_of(2, 6, 2, {300, 555}, Mask::causal);
    for (const QueryRows& rows : divide(problem, 5))
        for (const CasePart& part : parts_of(problem, rows)) {
            std::vector<int64_t> at_once, one_by_one;
            const int64_t count = part.problem.input_rows();
            part.each_stretch(problem.operation->inputs, 0, count, [&](int64_t first, int64_t at, int64_t some) {
                EXPECT_EQ(first, static_cast<int64_t>(at_once.size()));
                for (int64_t i = 0; i < some; ++i) at_once.push_back(at + i);
            });
            for (int64_t row = 0; row < count; ++row)
                part.each_stretch(problem.operation->inputs, row, 1, [&](int64_t first, int64_t at, int64_t some) {
                    EXPECT_EQ(first, row);
                    EXPECT_EQ(some, 1);
                    one_by_one.push_back(at);
                });
            EXPECT_EQ(at_once, one_by_one);
        }
}

TEST(CaseShares, OfManyHeadsAreWholeOnes) {
    const Problem problem = problem_of(100, 1, 1, {65536, 65536}, Mask::none);
    for (const QueryRows& rows : divide(problem, 6)) EXPECT_EQ(rows.first % 65536, 0);
    EXPECT_NE(divide(problem, 7)[1].first % 65536, 0);
}

TEST(CaseShares, OfLengthsAreWholeHeadsOfAboutEqualPairs) {
    const int32_t lengths[] = {555, 1, 30, 300, 200};
    for (const Mask mask : kEveryMask)
        for (const int shares : {1, 2, 3, 7, 40}) {
            SCOPED_TRACE(shares);
            Problem problem = problem_of(5, 6, 2, {20, 555}, mask);
            problem.by_lengths = true;
            double most = 0; // pairs of a share
            double all = 0;
            int64_t end_before = 0;
            for (const QueryRows& rows : divide_by_lengths(problem, shares, lengths)) {
                EXPECT_EQ(rows.first, end_before);
                EXPECT_EQ(rows.first % problem.queries, 0);
                end_before = rows.end;
                double pairs = 0;
                for (int64_t unit = rows.first / 20; unit < rows.end / 20; ++unit)
                    pairs += problem.of_keys(lengths[unit / 6]).pairs();
                most = std::max(most, pairs);
                all += pairs;
            }
            EXPECT_EQ(end_before, problem.units() * problem.queries);
            EXPECT_LE(most, all / shares + problem.of_keys(555).pairs());
            for (const std::vector<CasePart>& parts : divide_into_parts(problem, shares, Gradients::whole, lengths))
                for (const CasePart& part : parts) EXPECT_EQ(part.problem.keys, problem.keys) << "rows are not cut";
        }
}

TEST(CaseShares, OfGradientsAreWholeGroupsOfHeads) {
    const Problem problem = problem_of(1, 6, 3, {1000, 1000}, Mask::causal, kBackward);
    std::vector<int64_t> rows;
    for (const QueryRows& share : divide(problem, 4)) rows.push_back(share.end - share.first);
    EXPECT_EQ(rows, (std::vector<int64_t>{2000, 2000, 0, 2000})); // one share is empty
}

TEST(CaseShares, OfGradientsAreWholeHeadsWhereThereAreEnough) {
    const Problem problem = problem_of(2, 6, 3, {1000, 1000}, Mask::causal, kBackward);
    for (const Gradients gradients : {Gradients::whole, Gradients::cut})
        for (const std::vector<CasePart>& parts : divide_into_parts(problem, 6, gradients)) {
            ASSERT_EQ(parts.size(), 1U);
            EXPECT_EQ(parts[0].problem.operation, &kBackward);
        }
    for (const std::vector<CasePart>& parts : divide_into_parts(problem, 7, Gradients::whole))
        for (const CasePart& part : parts) EXPECT_EQ(part.problem.operation, &kBackward);
}

// The largest cost of a share, in matrix products; an undivided share does seven.
double longest_gradients(const Problem& problem, int shares) {
    double longest = 0;
    for (const std::vector<CasePart>& parts : divide_into_parts(problem, shares, Gradients::cut)) {
        double cost = 0;
        for (const CasePart& part : parts) {
            const Problem& own = part.problem;
            const auto pairs = [&](const Problem& of) { return static_cast<double>(of.heads) * of.pairs(); };
            if (own.operation == &kQueryGradients)
                cost += 5 * pairs(own);
            else if (own.operation == &kBackward)
                cost += 7 * pairs(own);
            else { // forward for the rows that see the block
                Problem rows = own.of_operation(kForward);
                rows.block_keys = 0;
                const int64_t unseeing = own.first_key + own.queries - own.keys;
                if (own.mask == Mask::causal && unseeing > 0) {
                    Problem before = rows;
                    before.queries = unseeing;
                    before.keys = own.first_key;
                    cost -= 2 * pairs(before);
                }
                cost += 2 * pairs(rows) + 4 * pairs(own);
            }
        }
        longest = std::max(longest, cost);
    }
    return longest / (static_cast<double>(problem.heads) * problem.pairs());
}

TEST(CaseShares, OfGradientsOfOneHeadTakeAsLongAsTheHeaderSays) {
    const Problem plain = problem_of(1, 1, 1, {65536, 65536}, Mask::none, kBackward);
    EXPECT_NEAR(longest_gradients(plain, 1), 7, 1e-9);
    EXPECT_NEAR(longest_gradients(plain, 2), 6, 0.05);
    EXPECT_NEAR(longest_gradients(plain, 3), 5, 0.05);
    EXPECT_NEAR(longest_gradients(plain, 5), 3.33, 0.05);
    EXPECT_NEAR(longest_gradients(plain, 64), 2.1, 0.05);
    const Problem grouped = problem_of(1, 4, 1, {65536, 65536}, Mask::none, kBackward);
    EXPECT_NEAR(longest_gradients(grouped, 5), 3.33, 0.05);
    // With the mask a share with later keys has fewer rows.
    const Problem causal = problem_of(1, 1, 1, {65536, 65536}, Mask::causal, kBackward);
    EXPECT_LT(longest_gradients(causal, 5), 3.3);
    EXPECT_LT(longest_gradients(causal, 64), 2.1);
}

// The reference computes each part as if nothing else existed.
TEST(CaseShares, HaveTheBytesOfTheWhole) {
    for (const Contract* contract : contracts())
        for (Problem problem : problems()) {
            problem.dim = 3;
            if (!why_not(*contract, problem).empty() || problem.units() > 3) continue;
            const AttentionCase& whole = reference_case(problem, CaseKind::uniform, 5, *contract);
            std::vector<float> got(whole.expected.size());
            for (const QueryRows& rows : divide(problem, 4))
                for (const CasePart& part : parts_of(problem, rows)) {
                    const std::vector<float> in =
                        rows_of(part, problem.operation->inputs, part.problem.input_rows(), whole.qkv);
                    std::vector<float> out(part.problem.output_bytes() / sizeof(float));
                    compute_by_reference(*contract, part.problem, in.data(), out.data());
                    part.each_stretch(problem.operation->outputs, 0, part.problem.output_rows(),
                                      [&](int64_t first, int64_t at, int64_t count) {
                                          std::copy_n(&out[problem.floats_in(first)], problem.floats_in(count),
                                                      &got[problem.floats_in(at)]);
                                      });
                }
            EXPECT_TRUE(same_bytes(whole.expected, got)) << contract->name << " " << whole.name;
        }
}

} // namespace
} // namespace hw4
