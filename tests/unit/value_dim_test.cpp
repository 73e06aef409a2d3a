// V with another number of columns than Q and K, in the references and every CPU kernel: under f32 O's columns are
// independent, so a group of them is a problem with one number of columns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/contracts/contract.h"
#include "src/io/file_rows.h"
#include "tests/support/causal_case.h"
#include "tests/support/cpu_subjects.h"
#include "tests/support/window.h"

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

// Windows in f32's reference and in every CPU kernel.

INSTANTIATE_TEST_SUITE_P(Cpu, Window, testing::ValuesIn(cpu_subjects({&kF32})), name_of_instance);

TEST(WindowRule, HidesAllButTheLastKeys) {
    const VisibleKeys sight = sight_of(Mask::causal, 5, 4, 2);
    for (int64_t query = 0; query < 5; ++query) EXPECT_EQ(sight.from(query), std::max<int64_t>(query - 2, 0)) << query;
    EXPECT_EQ(sight_of(Mask::causal, 1, 100).from(0), 0);
    EXPECT_EQ(sight_of(Mask::causal, 1, 100, 101).from(0), 0);
    EXPECT_EQ(sight_of(Mask::none, 1, 100).from(0), 0);
}

TEST(WindowRule, CountsThePairsThatItLeaves) {
    for (int64_t queries = 1; queries <= 6; ++queries)
        for (int64_t keys = 1; keys <= 6; ++keys)
            for (int64_t window = 1; window <= 8; ++window) {
                double pairs = 0;
                for (int64_t query = 0; query < queries; ++query)
                    pairs += static_cast<double>(std::min(visible_keys(Mask::causal, queries, keys, query), window));
                EXPECT_EQ(with_window(causal_problem(queries, keys, 1), window).pairs(), pairs);
            }
}

// A batch's window counts back from its own last key. Keys before the window, and rows beyond the batch's keys, are not
// read, apart from the segment that the window begins or ends in.
TEST(WindowRule, CountsFromTheEndOfEachLength) {
    constexpr int64_t kKeys = 400;
    constexpr int32_t kLengths[] = {400, 1, 65, 333};
    Problem problem = with_window(with_heads(causal_problem(2, kKeys, 16), 4, 2, 1), 70);
    problem.by_lengths = true;
    for (const Element element : kEveryElement)
        for (const cpu::Kernel& kernel : cpu_kernels_of(kForward, &kF32)) {
            if (!kernel.needs.processor()) continue;
            problem.element = Element::float32;
            CausalCase test(problem, CaseKind::uniform);
            round_all(element, test.qkv.data(), test.qkv.size(), test.qkv.data());
            std::vector<std::vector<float>> wanted;
            for (int64_t batch = 0; batch < 4; ++batch) {
                const Problem one = problem.of_batches(1).of_keys(kLengths[batch]);
                CausalCase alone(one, CaseKind::uniform);
                float* to = alone.qkv.data();
                to = std::copy_n(test.of(0, batch, 0), problem.floats_in(4), to);
                to = std::copy_n(test.of(1, batch, 0), problem.floats_in(one.keys), to);
                std::copy_n(test.of(2, batch, 0), problem.floats_in(one.keys), to);
                wanted.push_back(reference_subject(kF32).attend(one, alone.qkv));
                round_all(element, wanted.back().data(), wanted.back().size(), wanted.back().data());
                for (const size_t operand : {1, 2})
                    for (int64_t key = 0; key < kKeys; ++key)
                        if (key >= kLengths[batch] || key < kLengths[batch] - 71 - kSegmentKeys)
                            std::fill_n(test.in(operand).of(batch, 0) + key * 16, 16, NAN);
            }
            problem.element = element;
            std::vector<unsigned char> in(test.qkv.size() * bytes_of(element));
            narrow(element, test.qkv.data(), test.qkv.size(), in.data());
            std::vector<unsigned char> out(problem.floats_in(problem.output_rows()) * bytes_of(element));
            std::vector<float> scratch(cpu::plan_of(kernel, problem, 2).scratch_bytes / sizeof(float) + 32, NAN);
            const auto start = reinterpret_cast<uintptr_t>(scratch.data());
            cpu::Launch launch = cpu::launch_of(problem, in.data(), out.data(),
                                                reinterpret_cast<void*>((start + 63) / 64 * 64), 2); // NOLINT
            launch.lengths = kLengths;
            kernel.launch(launch);
            std::vector<float> got(problem.floats_in(problem.output_rows()));
            widen(element, out.data(), got.size(), got.data());
            for (size_t batch = 0; batch < 4; ++batch) {
                const auto at = got.begin() + static_cast<int64_t>(batch * problem.batch_output_floats());
                EXPECT_TRUE(same_bytes(wanted[batch], {at, at + static_cast<int64_t>(problem.batch_output_floats())}))
                    << kernel.name << ", batch " << batch;
            }
        }
}

TEST(WindowRule, IsRefusedWhereItHasNoMeaning) {
    EXPECT_EQ(why_not(kF32, with_window(causal_problem(3, 3, 4), 2)), "");
    EXPECT_EQ(why_not(kF32, with_window(Problem(1, 3, 4), 2)), "asks for a window, which needs the causal mask too");
    for (const Contract* contract : contracts())
        for (const Operation* operation : kOperations) {
            const Problem problem = with_window(causal_problem(3, 3, 4), 2).of_operation(*operation);
            if (contract->find(*operation) == nullptr || (contract == &kF32 && operation == &kForward)) continue;
            EXPECT_EQ(why_not(*contract, problem),
                      "asks for " + std::string(operation->name) + " with a window, which the contract " +
                          contract->name + " lacks: a GPU has windows in forward under f32 alone, and a contract " +
                          "computes the same cases everywhere");
        }
}

} // namespace
} // namespace hw4
