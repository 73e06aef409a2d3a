// Every machine of a training step has the reference's bytes, and the reference's bytes never change.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <map>

#include "src/step/kernels.h"
#include "src/step/orders.h"
#include "tests/support/attention_case.h"
#include "tests/support/step_bench.h"

namespace hw4::step {
namespace {

// Together they have full and partial chains, leaves and segments, and sequences that do not fill a tree.
const Shape kShapes[] = {{1, 1, 1, 5, 1, 2},       {3, 1, 7, 257, 2, 6},    {1, 33, 33, 5, 1, 32},
                         {1, 100, 1000, 7, 3, 16}, {2, 31, 1025, 13, 2, 4}, {5, 64, 40, 100, 1, 8},
                         {1, 3, 3000, 7, 1, 2},    {1, 3, 20, 2000, 1, 2},  {3, 33, 129, 13, 1, 2}};

class EachOperation : public testing::TestWithParam<NamedOperation> {};

void expect_the_references_bytes(const NamedOperation& operation, const Contract& contract) {
    const std::unique_ptr<Machine> reference = make_reference(contract);
    for (const Shape& shape : kShapes)
        for (const Numbers kind : {Numbers::ordinary, Numbers::spread, Numbers::zeros}) {
            const Floats expected = operation.results(*reference, shape, kind);
            for (const Kernels* kernels : supported_kernels())
                for (const int threads : {1, 2, 3}) {
                    const std::unique_ptr<Machine> cpu = make_cpu(threads, contract, *kernels);
                    EXPECT_TRUE(same_bytes(expected, operation.results(*cpu, shape, kind)))
                        << shape.text() << ", numbers " << static_cast<int>(kind) << ", " << kernels->name << ", "
                        << threads << " threads";
                }
        }
}

TEST_P(EachOperation, HasTheReferencesBytes) { expect_the_references_bytes(GetParam(), kF32); }
TEST_P(EachOperation, HasTheReferencesBytesUnderBf16) { expect_the_references_bytes(GetParam(), kBf16); }

// Files of parameters depend on these bytes.
TEST_P(EachOperation, HasTheseBytesForever) {
    const std::map<std::string, std::pair<uLong, uLong>> crcs = {
        {"embed", {0x6c22302c, 0xdb179f22}},          {"embed_back", {0x7479bb6c, 0x388799aa}},
        {"linear", {0xd63a912d, 0xb031293f}},         {"linear_back", {0x0596d1f0, 0x49bb02f2}},
        {"linear_weights", {0x20a38fb5, 0xc9ba86d8}}, {"norm", {0xa7b1ad16, 0xea312ea9}},
        {"rotate", {0x276281a9, 0x3072023f}},         {"attend", {0xdd73d7c7, 0xb19c1e8f}},
        {"swiglu", {0x1e2bef11, 0x9880915b}},         {"cross_entropy", {0x9845d391, 0x1d6d4f4e}},
        {"adamw", {0x7c640ad6, 0xd0fcf4a9}},          {"squares", {0x4f973fba, 0xf6985aa2}}};
    const std::unique_ptr<Machine> reference = make_reference();
    const auto crc = [&](Numbers kind) {
        const Floats all = GetParam().results(*reference, {3, 33, 1029, 21, 3, 10}, kind);
        return crc32_z(0, reinterpret_cast<const Bytef*>(all.data()), all.size() * sizeof(float));
    };
    const auto& [ordinary, spread] = crcs.at(GetParam().name);
    EXPECT_EQ(crc(Numbers::ordinary), ordinary);
    EXPECT_EQ(crc(Numbers::spread), spread);
}

INSTANTIATE_TEST_SUITE_P(Step, EachOperation, testing::ValuesIn(kStepOperations),
                         [](const auto& test) { return std::string(test.param.name); });

Floats rounded(Floats numbers) {
    round_all(Element::bf16, numbers.data(), numbers.size(), numbers.data());
    return numbers;
}

// Under bf16, the factors alone are rounded: a residual and the sum are not.
TEST(StepUnderBf16, ProductsAreThoseOfRoundedFactors) {
    const int64_t sequences = 3, context = 5, inputs = 33, outputs = 7, rows = sequences * context;
    Draw draw(Numbers::ordinary);
    const Floats x = draw.numbers(rows * inputs), w = draw.numbers(outputs * inputs), dy = draw.numbers(rows * outputs);
    const auto products = [&](Machine& machine, const Floats& in, const Floats& weights, const Floats& of_out) {
        Floats y(dy), dx(x.size()), dw(w.size());
        machine.linear(in.data(), weights.data(), y.data(), y.data(), rows, inputs, outputs);
        machine.linear_back(of_out.data(), weights.data(), dx.data(), rows, inputs, outputs);
        machine.linear_weights(of_out.data(), in.data(), dw.data(), sequences, context, inputs, outputs);
        return std::vector<Floats>{y, dx, dw};
    };
    const auto got = products(*make_reference(kBf16), x, w, dy);
    EXPECT_EQ(got, products(*make_reference(), rounded(x), rounded(w), rounded(dy)));
    for (const Floats& result : got) EXPECT_NE(result, rounded(result));
}

TEST(StepUnderBf16, AttentionIsOfRoundedOperandsAndRounded) {
    const Model model{16, 0, 0, 2, 0};
    Draw draw(Numbers::ordinary);
    const Floats qkv = draw.numbers(18 * 48), d_o = draw.numbers(18 * 16);
    const auto attend = [&](Machine& machine, const Floats& in, const Floats& of_out) {
        Floats o(d_o.size()), d_qkv(qkv.size());
        const Owned<RowStatistics> statistics = machine.statistics(18 * 2);
        machine.attend(in.data(), o.data(), statistics.get(), 2, 9, model);
        machine.attend_back(in.data(), o.data(), statistics.get(), of_out.data(), d_qkv.data(), 2, 9, model);
        return std::vector<Floats>{o, d_qkv};
    };
    std::vector<Floats> wanted = attend(*make_reference(), rounded(qkv), rounded(d_o));
    for (Floats& result : wanted) result = rounded(result);
    EXPECT_EQ(attend(*make_cpu(2, kBf16), qkv, d_o), wanted);
}

// The same sequences in micro-batches of 2^n; Machine::add joins their subtrees.
class MicroBatches : public testing::TestWithParam<int64_t> {
protected:
    const int64_t all = GetParam(), context = 33, inputs = 9, outputs = 11;
    std::unique_ptr<Machine> machine = make_cpu(2);
    Draw draw{Numbers::spread};
    const size_t rows = static_cast<size_t>(all * context);
    const Floats x = draw.numbers(rows * static_cast<size_t>(inputs));
    const Floats dy = draw.numbers(rows * static_cast<size_t>(outputs));
    const Floats factors = draw.numbers(rows);
    const Tokens tokens = drawn_tokens({all, context, inputs, outputs, 1, 2});

    Floats gradients(int64_t first, int64_t count) {
        const int64_t at = first * context;
        Floats sums(static_cast<size_t>(2 * outputs * inputs + inputs));
        Tokens part{count, context, {}, {}};
        part.inputs.assign(tokens.inputs.begin() + at, tokens.inputs.begin() + at + count * context);
        machine->linear_weights(&dy[static_cast<size_t>(at * outputs)], &x[static_cast<size_t>(at * inputs)],
                                sums.data(), count, context, inputs, outputs);
        machine->embed_back(part, &x[static_cast<size_t>(at * inputs)], sums.data() + outputs * inputs, outputs,
                            inputs);
        machine->norm_gain(&x[static_cast<size_t>(at * inputs)], &factors[static_cast<size_t>(at)],
                           &x[static_cast<size_t>(at * inputs)], sums.data() + 2 * outputs * inputs, count, context,
                           inputs);
        return sums;
    }
};

TEST_P(MicroBatches, JoinToTheSameBytes) {
    const Floats whole = gradients(0, all);
    for (int64_t size = 1; size < all; size *= 2) {
        std::vector<Floats> nodes;
        const auto join = [&] {
            machine->add(nodes[nodes.size() - 2].data(), nodes.back().data(), whole.size());
            nodes.pop_back();
        };
        for (int64_t i = 0; i * size < all; ++i) {
            nodes.push_back(gradients(i * size, std::min(size, all - i * size)));
            for (int joins = joins_after(i); joins > 0; --joins) join();
        }
        while (nodes.size() > 1) join();
        EXPECT_EQ(std::memcmp(whole.data(), nodes[0].data(), whole.size() * sizeof(float)), 0) << size;
    }
}

INSTANTIATE_TEST_SUITE_P(Step, MicroBatches, testing::Values(2, 3, 5, 8, 11));

TEST(StepCrossEntropy, SaysThatAStepMustBeRefused) {
    const Tokens tokens{1, 1, {0}, {1}};
    for (const auto& machine : {make_reference(), make_cpu(1)})
        for (const float bad : {NAN, static_cast<float>(HUGE_VAL), 1e7f})
            for (size_t at = 0; at < 3; ++at) {
                Floats logits(200, 0.5f);
                logits[at] = bad;
                EXPECT_FALSE(std::isfinite(machine->cross_entropy(logits.data(), tokens, 200, 1)[0])) << bad << at;
            }
}

} // namespace
} // namespace hw4::step
