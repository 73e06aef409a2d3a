// Windows in f32's reference and in every CPU kernel.
#include "tests/support/window.h"

#include <cmath>

#include "src/contracts/contract.h"
#include "tests/support/cpu_subjects.h"

namespace hw4 {
namespace {

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
