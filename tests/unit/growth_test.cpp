// A contract, an operation and a kernel that the program does not have, by their rows alone: what reads the rows needs
// no change for them.
#include <gtest/gtest.h>

#include <cmath>

#include "src/contracts/contract.h"
#include "src/cpu/engine.h"
#include "src/run/pipeline.h"
#include "tests/support/attention_case.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

using test::Failure;
using test::failure_of;

// A row for every query, the sum of its own and all keys; a row for every key, twice its own.
constexpr Operand kSumIn[] = {{"X", Rows::of_queries, Role::query}, {"Y", Rows::of_keys, Role::other}};
constexpr Operand kSumOut[] = {{"S", Rows::of_queries, Role::other}, {"T", Rows::of_keys, Role::other}};
constexpr Operation kSum = {.name = "sum", .file_code = 7, .inputs = kSumIn, .outputs = kSumOut, .products = 1};

void sum(const UnitOperands& unit) {
    const auto d = static_cast<size_t>(unit.dim);
    for (size_t i = 0; i < static_cast<size_t>(unit.queries) * d; ++i) {
        unit.out[0][i] = unit.in[0][i];
        for (size_t key = 0; key < static_cast<size_t>(unit.keys); ++key) unit.out[0][i] += unit.in[1][key * d + i % d];
    }
    for (size_t i = 0; i < static_cast<size_t>(unit.keys) * d; ++i) unit.out[1][i] = 2 * unit.in[1][i];
}

constexpr Computed kPlainComputes[] = {{.operation = &kSum, .revision = 3, .masks = kNoMask, .reference = sum}};
constexpr Contract kPlain = {.name = "plain",
                             .idea = "sums in the order of the keys",
                             .compared = Compared::bytes,
                             .element = Element::float32,
                             .most_columns = 100,
                             .domain = {.most_score = 1, .most_sum = 1},
                             .computes = kPlainComputes};

// As a kernel would: batch after batch, head after head.
void launch_sum(const cpu::Kernel&, const cpu::Launch& launch) {
    const Problem& problem = launch.problem;
    for (int64_t b = 0; b < problem.batches; ++b)
        for (int64_t h = 0; h < problem.heads; ++h) {
            sum({problem.queries,
                 problem.keys,
                 problem.dim,
                 {launch.in[0].as<const float>().of(b, h), launch.in[1].as<const float>().of(b, h)},
                 {launch.out[0].as<float>().of(b, h), launch.out[1].as<float>().of(b, h)}});
            launch.done(problem.queries + problem.keys);
        }
}

std::vector<cpu::Kernel> with_sum() {
    std::vector<cpu::Kernel> table = cpu::kernels();
    table.push_back({.name = "plain_sum",
                     .idea = "one thread",
                     .does = &kSum,
                     .under = &kPlain,
                     .needs = {.processor = [] { return true; }},
                     .plan = [](const cpu::Kernel&, const Problem&, int) { return cpu::Plan{}; },
                     .run = launch_sum});
    return table;
}

constexpr const Operation* kAllOperations[] = {&kForward, &kBackward, &kSum};

Problem sum_problem() {
    Problem problem(5, 3, 4);
    problem.keys = 6;
    problem.heads = problem.kv_heads = 2;
    problem.operation = &kSum;
    return problem;
}

TEST(NewRows, SayWhatTheyLack) {
    EXPECT_EQ(why_not(kPlain, sum_problem()), "");
    EXPECT_EQ(why_not(kF32, sum_problem()), "asks for sum, which the contract f32 lacks");
    EXPECT_EQ(why_not(kPlain, {1, 1, 1}), "asks for forward, which the contract plain lacks");
    Problem wide = sum_problem();
    wide.dim = 100;
    EXPECT_EQ(why_not(kPlain, wide), "");
    wide.dim = 101;
    EXPECT_EQ(why_not(kPlain, wide), "d is 101, the contract plain needs at most 100");
    Problem masked = sum_problem();
    masked.mask = Mask::causal;
    EXPECT_EQ(why_not(kPlain, masked), "asks for the mask causal, which the contract plain lacks");
}

TEST(NewRows, DecideWhichKernelIsTaken) {
    const std::vector<cpu::Kernel> table = with_sum();
    EXPECT_STREQ(cpu::choose_kernel("", sum_problem(), kPlain, table).name, "plain_sum");
    EXPECT_STREQ(cpu::choose_kernel("plain_sum", sum_problem(), kPlain, table).name, "plain_sum");
    EXPECT_EQ(cpu::choose_kernel("", {1, 1, 1}, kF32, table).under, &kF32);
    EXPECT_EQ(failure_of([&] { cpu::choose_kernel("", sum_problem(), kPlain); }),
              (Failure{ExitCode::bad_data, "no CPU kernel computes sum under plain for this case"}));
    EXPECT_EQ(failure_of([&] { cpu::choose_kernel("generic", sum_problem(), kF32, table); }),
              (Failure{ExitCode::bad_data, "kernel generic computes forward, this case asks for sum"}));
    EXPECT_EQ(failure_of([&] { cpu::choose_kernel("plain_sum", sum_problem(), kF32, table); }),
              (Failure{ExitCode::usage, "kernel 'plain_sum' computes plain, not f32"}));
}

// Header, rows, chunks, output: from file to file.
TEST(NewRows, RunThroughThePipeline) {
    const test::TemporaryFolder folder;
    InterruptGuard interrupts;
    const Problem problem = sum_problem();
    std::vector<float> in(static_cast<size_t>(problem.input_rows() * problem.dim));
    fill_case_values({problem, CaseKind::uniform, 4}, 0, in.size(), in.data());
    std::vector<float> expected(static_cast<size_t>(problem.output_rows() * problem.dim));
    compute_by_reference(kPlain, problem, in.data(), expected.data());
    const Bytes header = header_of(problem, true);
    test::write_file(folder / "a.in", std::string(header.begin(), header.end()) + test::bytes_of(in.data(), in.size()));
    const std::vector<cpu::Kernel> table = with_sum();
    for (const int64_t chunk : {1, 2, 5}) {
        CaseReader input(folder / "a.in", nullptr, kAllOperations);
        OutputFile output(folder / "a.out", interrupts);
        EngineOptions options;
        options.contract = &kPlain;
        options.chunk_batches = chunk;
        OutputChecksum checksum;
        const RunReport report = run_pipeline(
            input, output, options, {2, 2, 4096, 3 * 4096},
            [&](const EngineRequest& request) { return cpu::make_engine(request, table); }, nullptr, &checksum);
        output.commit(false);
        EXPECT_EQ(report.engine.kernel, "plain_sum");
        EXPECT_EQ(report.engine.contract, &kPlain);
        const std::string wanted = test::bytes_of(expected.data(), expected.size());
        EXPECT_TRUE(test::read_file(folder / "a.out") == wanted) << chunk;
        OutputChecksum of_wanted;
        of_wanted.add(0, wanted.data(), wanted.size());
        EXPECT_EQ(report.output_crc32, of_wanted.text());
    }
}

TEST(NewRows, AreCheckedForNumbersByTheirRoles) {
    const Problem problem = sum_problem();
    std::vector<float> in(static_cast<size_t>(problem.input_rows() * problem.dim), 1.0f);
    const auto failure = [&] {
        return failure_of(
            [&] { DomainCheck("a.in", problem, kPlain.domain).check(0, problem.input_rows(), in.data()); });
    };
    EXPECT_EQ(failure(), Failure{}) << "without keys there are no scores, without values no sums";
    in[static_cast<size_t>(problem.batch_input_rows() + 6 + 7) * 4 + 3] = NAN; // Y of the second batch
    EXPECT_EQ(failure(),
              (Failure{ExitCode::bad_data, "a.in: batch 1, Y, head 1, row 1, column 3: nan, need a finite number"}));
}

// ---- What the rows that there are must be like.

TEST(Rows, OfEveryContractHaveNamesAndReferencesOfTheirOwn) {
    for (size_t i = 0; i < contracts().size(); ++i) {
        const Contract& contract = *contracts()[i];
        EXPECT_EQ(find_contract(contract.name), &contract);
        EXPECT_GT(contract.computes.size(), 0u) << contract.name;
        for (const Computed& computed : contract.computes) {
            EXPECT_NE(computed.reference, nullptr);
            EXPECT_GE(computed.revision, 1);
            EXPECT_EQ(contract.find(*computed.operation), &computed);
        }
    }
    EXPECT_EQ(kF32.revision_of(kForward), "f32.forward/1");
    EXPECT_EQ(kFixed.revision_of(kForward), "fixed.forward/2");
    EXPECT_EQ(kFixed16.revision_of(kForward), "fixed16.forward/1");
}

} // namespace
} // namespace hw4
