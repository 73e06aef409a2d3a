#include "../src/cpu/engine.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cmath>
#include <random>
#include <system_error>
#include <thread>

#include "../src/error.h"
#include "attention_case.h"
#include "long_sequence.h"

namespace hw4::cpu {
namespace {

std::vector<float> attend(const Kernel& kernel, const AttentionCase& test, int threads) {
    std::vector<float> out(test.expected.size(), NAN); // poisoned: every value must be written
    attend_batches(kernel, test.shape, test.shape.batches, test.qkv.data(), out.data(), threads);
    return out;
}

class EachKernel : public testing::TestWithParam<const Kernel*> {
protected:
    void SetUp() override {
        if (!GetParam()->supported()) GTEST_SKIP() << "this processor has no " << GetParam()->name;
    }
};

TEST_P(EachKernel, GivesTheReferenceBytesOnEveryKindAndCorner) {
    for (const Shape& shape : corner_shapes())
        for (const CaseKind kind : kAllKinds) {
            const AttentionCase test(shape, kind, 11);
            EXPECT_TRUE(same_bytes(test.expected, attend(*GetParam(), test, 2))) << test.name;
        }
}

TEST_P(EachKernel, GivesTheReferenceBytesOnRandomShapes) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
    for (int i = 0; i < 100; ++i) {
        // A quarter with several segments, the others small.
        const Shape shape =
            i % 4 == 0 ? Shape{1, pick(1000, 3200), pick(1, 8)} : Shape{pick(1, 4), pick(1, 300), pick(1, 100)};
        const AttentionCase test(shape, kAllKinds[static_cast<size_t>(pick(0, kKinds - 1))],
                                 static_cast<uint64_t>(pick(0, 1 << 30)));
        EXPECT_TRUE(same_bytes(test.expected, attend(*GetParam(), test, pick(1, 5)))) << test.name;
    }
}

TEST_P(EachKernel, TakesALongSequence) {
    const LongSequence test(8);
    for (const int64_t row : {int64_t{0}, test.shape.tokens - 1}) {
        const std::vector<float> out = test.rows_by(*GetParam(), row, 1);
        EXPECT_TRUE(same_bytes(test.rows_by(*kernels().back(), row, 1), out)) << row;
        const std::vector<double> wanted = test.row_by_definition(row);
        for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], wanted[i], 1e-6) << row << ", column " << i;
    }
}

TEST_P(EachKernel, DoesNotDependOnTheNumberOfThreads) {
    const AttentionCase test({7, 450, 24}, CaseKind::spread, 5);
    for (const int threads : {1, 2, 3, 16, 100})
        EXPECT_TRUE(same_bytes(test.expected, attend(*GetParam(), test, threads))) << threads;
}

TEST_P(EachKernel, TakesDimensionsBeyondTheGpuKernels) {
    const AttentionCase test({1, 40, 1000}, CaseKind::uniform, 2);
    EXPECT_TRUE(same_bytes(test.expected, attend(*GetParam(), test, 1)));
}

TEST_P(EachKernel, TreatsNegativeZerosAsTheReferenceDoes) {
    const AttentionCase test = AttentionCase::with_negative_zeros();
    EXPECT_TRUE(same_bytes(test.expected, attend(*GetParam(), test, 1)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, EachKernel, testing::ValuesIn(kernels()),
                         [](const auto& instance) { return std::string(instance.param->name); });

// While one lives, no thread can be started: no address space holds its stack.
class NoNewThreads {
public:
    NoNewThreads() {
        pthread_attr_init(&before_);
        EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
        pthread_attr_t boundless;
        pthread_attr_init(&boundless);
        EXPECT_EQ(pthread_attr_setstacksize(&boundless, size_t{1} << 60), 0);
        EXPECT_EQ(pthread_setattr_default_np(&boundless), 0);
        pthread_attr_destroy(&boundless);
    }
    NoNewThreads(const NoNewThreads&) = delete;
    NoNewThreads& operator=(const NoNewThreads&) = delete;
    ~NoNewThreads() {
        pthread_setattr_default_np(&before_);
        pthread_attr_destroy(&before_);
    }

private:
    pthread_attr_t before_;
};

TEST(OnThreads, DoesAllTheWorkOnTheThreadsThatCanBeStarted) {
    const AttentionCase test({3, 450, 8}, CaseKind::uniform, 6);
    const NoNewThreads none;
    ASSERT_THROW(std::thread([] {}).join(), std::system_error);
    EXPECT_TRUE(same_bytes(test.expected, attend(choose_kernel(""), test, 4)));
}

TEST(ChooseCpuKernel, TakesTheFirstSupportedOne) {
    const Kernel* best = &choose_kernel("");
    EXPECT_TRUE(best->supported());
    for (const Kernel* kernel : kernels()) {
        if (kernel == best) break;
        EXPECT_FALSE(kernel->supported()) << kernel->name;
    }
}

TEST(ChooseCpuKernel, FindsEachByNameAndRefusesOthers) {
    for (const Kernel* kernel : kernels())
        if (kernel->supported()) {
            EXPECT_EQ(&choose_kernel(kernel->name), kernel);
        }
    try {
        choose_kernel("mmx");
        FAIL() << "an unknown kernel was accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_NE(std::string(error.what()).find("generic"), std::string::npos)
            << "the message names what there is: " << error.what();
    }
}

} // namespace
} // namespace hw4::cpu
