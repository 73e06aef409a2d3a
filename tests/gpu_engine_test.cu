// The GPU engine from file to file.
#include "../src/gpu/engine.h"

#include <gtest/gtest.h>

#include "../src/error.h"
#include "attention_case.h"
#include "need_gpu.h"
#include "temporary_folder.h"

namespace hw4::gpu {
namespace {

std::string case_bytes(const AttentionCase& test) {
    return hw4::test::header_bytes(static_cast<int32_t>(test.shape.batches), static_cast<int32_t>(test.shape.tokens),
                                   static_cast<int32_t>(test.shape.dim)) +
           hw4::test::bytes_of(test.qkv.data(), test.qkv.size());
}

TEST(GpuEngine, GivesTheReferenceBytesWithAnyNumberOfStreams) {
    HW4_SKIP_WITHOUT_GPU();
    const hw4::test::TemporaryFolder folder;
    // More than six chunks of 16 MiB, the last one short, so that every slot is used again.
    const AttentionCase test({275, 128, 256}, CaseKind::uniform, 9);
    hw4::test::write_file(folder / "a.in", case_bytes(test));
    for (const int streams : {1, 2, 4, 5}) {
        InterruptGuard interrupts;
        CaseReader input(folder / "a.in");
        OutputFile output(folder / "a.out", interrupts);
        EngineOptions options;
        options.streams = streams;
        const RunReport report = run(input, output, options);
        output.commit(false);
        EXPECT_EQ(report.streams, streams);
        EXPECT_GT(report.seconds.kernel, 0.0);
        EXPECT_TRUE(hw4::test::read_file(folder / "a.out") ==
                    hw4::test::bytes_of(test.expected.data(), test.expected.size()))
            << streams;
    }
}

TEST(GpuEngine, BadDataInALaterChunkFailsCleanly) {
    HW4_SKIP_WITHOUT_GPU();
    const hw4::test::TemporaryFolder folder;
    AttentionCase test({275, 128, 256}, CaseKind::uniform, 9);
    test.qkv[test.qkv.size() - 1] = HUGE_VALF;
    hw4::test::write_file(folder / "a.in", case_bytes(test));
    {
        InterruptGuard interrupts;
        CaseReader input(folder / "a.in");
        OutputFile output(folder / "a.out", interrupts);
        const hw4::test::Failure failure = hw4::test::failure_of([&] { run(input, output, {}); });
        EXPECT_EQ(failure.code, ExitCode::bad_data);
        EXPECT_NE(failure.message.find("batch 274, V, row 127, column 255"), std::string::npos) << failure.message;
    }
    EXPECT_EQ(folder.names(), std::vector<std::string>{"a.in"});
}

TEST(GpuEngine, SaysWhichShapesItCannotTake) {
    HW4_SKIP_WITHOUT_GPU();
    EXPECT_EQ(unsupported_reason({1, 1, 256}), "");
    EXPECT_NE(unsupported_reason({1, 1, 257}).find("d = 257"), std::string::npos);
}

TEST(GpuEngine, ListsTheTable) {
    ASSERT_FALSE(kernel_list().empty());
    EXPECT_NE(build_description().find("CUDA"), std::string::npos);
}

} // namespace
} // namespace hw4::gpu
