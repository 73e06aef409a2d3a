#include "src/gpu/device/memory.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/support/need_gpu.h"
#include "tests/support/pitched_matrix.h"

namespace hw4::gpu {
namespace {

struct CountRelease {
    void operator()(int* released) const noexcept { ++*released; }
};

TEST(OwnerTest, ReleasesExactlyOnceWhateverMoves) {
    int released = 0;
    {
        Owner<int*, CountRelease> a(&released);
        Owner<int*, CountRelease> b(std::move(a));
        EXPECT_EQ(a.get(), nullptr);
        Owner<int*, CountRelease> c;
        c = std::move(b);
        EXPECT_EQ(c.get(), &released);
        EXPECT_EQ(released, 0);
    }
    EXPECT_EQ(released, 1);
}

TEST(CheckTest, TurnsErrorsIntoExitCodes) {
    EXPECT_EQ(exit_code_of(cudaErrorMemoryAllocation), ExitCode::out_of_memory);
    EXPECT_EQ(exit_code_of(cudaErrorNoDevice), ExitCode::no_gpu);
    EXPECT_EQ(exit_code_of(cudaErrorNoKernelImageForDevice), ExitCode::no_gpu);
    EXPECT_EQ(exit_code_of(cudaErrorIllegalAddress), ExitCode::internal);
    EXPECT_NO_THROW(HW4_CUDA(cudaSuccess));
    try {
        HW4_CUDA(cudaErrorIllegalAddress);
        FAIL() << "an error passed";
    } catch (const Error& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("cudaErrorIllegalAddress"), std::string::npos) << message;
        EXPECT_NE(message.find("gpu_memory_test.cu:"), std::string::npos) << message;
    }
}

TEST(PitchedMatrixTest, CopiesRowsBothWays) {
    HW4_SKIP_WITHOUT_GPU();
    for (const Copies copies : {Copies::two_d, Copies::linear})
        for (const size_t columns : {size_t{1}, size_t{7}, size_t{32}, size_t{33}, size_t{256}}) {
            const size_t rows = 50;
            const Stream stream = make_stream();
            PitchedMatrix matrix(rows, columns, copies);
            EXPECT_GE(matrix.stride(), columns);
            std::vector<float> in(rows * columns);
            std::vector<float> out(rows * columns);
            const Pinned in_place = pin(in.data(), in.size() * sizeof(float));
            std::iota(in.begin(), in.end(), 1.0f);
            // Copies the later rows first.
            matrix.copy_in(in.data() + 20 * columns, rows - 20, stream.get(), 20);
            matrix.copy_in(in.data(), 20, stream.get());
            matrix.copy_out(out.data(), 30, stream.get());
            matrix.copy_out(out.data() + 30 * columns, rows - 30, stream.get(), 30);
            HW4_CUDA(cudaStreamSynchronize(stream.get()));
            EXPECT_EQ(in, out) << name_of(copies) << columns;
        }
}

} // namespace
} // namespace hw4::gpu
