// V with another number of columns than Q and K, in the references and every CPU kernel: under f32 O's columns are
// independent, so a group of them is a problem with one number of columns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/io/file_rows.h"
#include "tests/support/causal_case.h"
#include "tests/support/cpu_subjects.h"

namespace hw4 {
namespace {

class ValueDim : public testing::TestWithParam<Subject> {
protected:
    void SetUp() override {
        const std::string refusal = GetParam().why_not(causal_problem(1, 1, 1));
        if (!refusal.empty()) GTEST_SKIP() << refusal;
    }
};

// The layout in memory: zeros behind the existing columns.
CausalCase padded_case(const Problem& problem, const Distribution& values) {
    CausalCase test(problem, values);
    int64_t row = 0;
    for (const Operand& operand : problem.operation->inputs)
        for (int64_t end = row + problem.rows_of(operand); row < end; ++row)
            std::fill(test.qkv.begin() + row * problem.dim + problem.columns_of(operand),
                      test.qkv.begin() + (row + 1) * problem.dim, 0.0f);
    return test;
}

// The same case with some columns of V, from `first` on; zeros behind the last.
CausalCase with_some_columns(CausalCase& whole, int64_t first) {
    const int64_t d = whole.problem.key_dim();
    CausalCase some(whole.problem.of_columns(d, d), CaseKind::uniform);
    for (size_t operand = 0; operand < 3; ++operand) {
        const int64_t from = operand == 2 ? first : 0;
        for (int64_t row = 0; row < whole.problem.rows_of(kForward.inputs[operand]); ++row)
            for (int64_t x = 0; x < d; ++x)
                some.in(operand).of(0, 0)[row * d + x] =
                    from + x < whole.problem.dim ? whole.in(operand).of(0, 0)[row * whole.problem.dim + from + x]
                                                 : 0.0f;
    }
    return some;
}

TEST_P(ValueDim, AColumnIsThatOfAProblemWithOneNumberOfColumns) {
    const std::pair<int64_t, int64_t> columns[] = {{1, 2}, {20, 48}, {48, 20}, {33, 128}, {64, 1}, {192, 128}};
    for (const auto& [d, d_v] : columns)
        for (const Distribution& values : {Distribution(CaseKind::uniform), Distribution(CaseKind::spread)}) {
            const Problem problem = with_heads(causal_problem(37, 150, 1), 1, 4, 2).of_columns(d, d_v);
            if (!GetParam().why_not(problem).empty()) continue;
            CausalCase whole = padded_case(problem, values);
            const std::vector<float> got = GetParam().attend(problem, whole.qkv);
            for (int64_t first = 0; first < d_v; first += d) {
                CausalCase some = with_some_columns(whole, first);
                const std::vector<float> wanted = reference_subject(kF32).attend(some.problem, some.qkv);
                std::vector<float> wanted_rows;
                std::vector<float> got_rows;
                const int64_t count = std::min(d, d_v - first);
                for (int64_t row = 0; row < problem.output_rows(); ++row) {
                    const auto from = wanted.begin() + row * d;
                    const auto mine = got.begin() + row * problem.dim + first;
                    wanted_rows.insert(wanted_rows.end(), from, from + count);
                    got_rows.insert(got_rows.end(), mine, mine + count);
                }
                EXPECT_TRUE(same_bytes(wanted_rows, got_rows)) << d << ", " << d_v << ", from column " << first;
            }
        }
}

INSTANTIATE_TEST_SUITE_P(Cpu, ValueDim, testing::ValuesIn(cpu_subjects({&kF32})), name_of_instance);

TEST(ValueDimOfFixed, IsThatOfRowsOfZerosWithTheScaleOfD) {
    const std::pair<int64_t, int64_t> columns[] = {{1, 2}, {20, 48}, {48, 20}, {192, 128}};
    for (const Contract* contract : {&kFixed, &kFixed16})
        for (const auto& [d, d_v] : columns) {
            const Problem problem = with_heads(causal_problem(37, 300, 1), 1, 4, 2).of_columns(d, d_v);
            const CausalCase test = padded_case(problem, Distribution(CaseKind::spread));
            Problem plain = problem.of_columns(problem.dim, problem.dim);
            plain.scale = 1 / std::sqrt(static_cast<double>(d));
            const std::vector<float> wanted = reference_subject(*contract).attend(plain, test.qkv);
            for (const Subject& subject : cpu_subjects({contract})) {
                if (!subject.why_not(problem).empty()) continue;
                EXPECT_TRUE(same_bytes(wanted, subject.attend(problem, test.qkv))) << subject.name << ", " << d;
            }
        }
}

TEST(ValueDimRule, IsForContractsOfBytes) {
    const Problem problem = Problem(1, 3, 1).of_columns(8, 4);
    for (const Contract* contract : contracts())
        EXPECT_EQ(why_not(*contract, problem), contract->compared == Compared::bytes
                                                   ? ""
                                                   : "has d = 8 and d_v = 4, need the same under the contract " +
                                                         std::string(contract->name) +
                                                         ", which has no measured bound of another d_v");
}

TEST(FileRows, AreThoseOfMemoryWithoutThePadding) {
    Problem problem = Problem(2, 3, 1).of_operation(kBackward).of_columns(2, 5);
    problem.kv_heads = problem.heads = 2;
    std::vector<float> rows(problem.floats_in(problem.input_rows()));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
    std::vector<float> file;
    for (int64_t first = 0; first < problem.input_rows(); first += 7) {
        const int64_t count = std::min<int64_t>(7, problem.input_rows() - first);
        each_in_file(problem, problem.operation->inputs, first, count, rows.data() + first * problem.dim,
                     [&](uint64_t at, const void* numbers, size_t bytes) {
                         EXPECT_EQ(at, file.size() * sizeof(float));
                         const auto* const values = static_cast<const float*>(numbers);
                         file.insert(file.end(), values, values + bytes / sizeof(float));
                     });
    }
    std::vector<float> wanted;
    for (int64_t row = 0; row < problem.input_rows(); ++row) {
        const bool of_values = row % 24 / 6 >= 2; // V and dO
        wanted.insert(wanted.end(), rows.begin() + row * 5, rows.begin() + row * 5 + (of_values ? 5 : 2));
    }
    EXPECT_EQ(file, wanted);
    std::vector<float> room(4 * 5, 7.0f);
    std::copy_n(wanted.begin(), 8, room.end() - 8);
    pad_at_end(reinterpret_cast<unsigned char*>(room.data()), 4, 20, 8);
    for (size_t i = 0; i < room.size(); ++i) EXPECT_EQ(room[i], i % 5 < 2 ? rows[i] : 0.0f) << i;
}

} // namespace
} // namespace hw4
