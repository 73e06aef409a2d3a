// What goes to the card through the buffers is what comes back, whatever it is to the size of a buffer.
#include <gtest/gtest.h>

#include "src/bench/gpu/staged_copies.h"
#include "tests/support/need_gpu.h"

namespace hw4::bench::gpu_side {
namespace {

class StagedCopiesOnGpu : public ::testing::Test {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }

    // Numbers that repeat at no distance that is a multiple of a buffer.
    static std::vector<float> numbers(Element element, size_t count) {
        std::vector<float> values(count);
        for (size_t i = 0; i < count; ++i) values[i] = rounded_to(element, static_cast<float>(i % 3001) - 1500.0f);
        return values;
    }
};

TEST_F(StagedCopiesOnGpu, BringBackWhatTheyTook) {
    StagedCopies copies;
    for (const Element element : kEveryElement) {
        const size_t buffer = StagedCopies::kBufferBytes / bytes_of(element);
        for (const size_t count : {size_t{1}, buffer - 1, buffer, buffer + 1, 2 * buffer, 5 * buffer + 7}) {
            const std::vector<float> values = numbers(element, count);
            const gpu::Scratch memory = gpu::make_scratch(count * bytes_of(element));
            const CardRows rows(element, memory.get(), count);
            copies.put(values.data(), rows);
            std::vector<unsigned char> stored(count * bytes_of(element));
            HW4_CUDA(cudaMemcpy(stored.data(), memory.get(), stored.size(), cudaMemcpyDeviceToHost));
            std::vector<float> widened(count);
            widen(element, stored.data(), count, widened.data());
            EXPECT_TRUE(widened == values) << name_of(element) << " " << count;
            std::vector<float> back(count);
            copies.get(rows, back.data());
            EXPECT_TRUE(back == values) << name_of(element) << " " << count;
        }
    }
}

gpu::Pinned refuse_to_pin(void*, size_t) { throw Error(ExitCode::internal, "refused"); }

TEST_F(StagedCopiesOnGpu, DoWithoutPinnedMemory) {
    StagedCopies copies(refuse_to_pin);
    const size_t count = 3 * StagedCopies::kBufferBytes / sizeof(float) + 5;
    const std::vector<float> values = numbers(Element::float32, count);
    const gpu::Scratch memory = gpu::make_scratch(count * sizeof(float));
    const CardRows rows(Element::float32, memory.get(), count);
    copies.put(values.data(), rows);
    std::vector<float> back(count);
    copies.get(rows, back.data());
    EXPECT_TRUE(back == values);
}

// What is between rows stays as it is.
TEST_F(StagedCopiesOnGpu, LeaveWhatIsBetweenRows) {
    constexpr size_t kColumns = 13;
    constexpr size_t kStored = 16; // numbers from one row to the next
    StagedCopies copies;
    const size_t buffer = StagedCopies::kBufferBytes / (2 * kColumns);
    for (const size_t count : {size_t{1}, buffer, buffer + 1, 3 * buffer + 5}) {
        const std::vector<float> values = numbers(Element::bf16, count * kColumns);
        std::vector<uint16_t> stored(count * kStored);
        const size_t bytes = stored.size() * sizeof(uint16_t);
        const gpu::Scratch memory = gpu::make_scratch(bytes);
        HW4_CUDA(cudaMemset(memory.get(), 0x5a, bytes));
        HW4_CUDA(cudaDeviceSynchronize());
        const CardRows rows(Element::bf16, memory.get(), count, kColumns, 2 * kStored);
        copies.put(values.data(), rows);
        HW4_CUDA(cudaMemcpy(stored.data(), memory.get(), bytes, cudaMemcpyDeviceToHost));
        size_t wrong = 0;
        for (size_t i = 0; i < stored.size(); ++i) {
            const size_t column = i % kStored;
            wrong += stored[i] !=
                     (column < kColumns ? bf16_bits(values[i / kStored * kColumns + column]) : uint16_t{0x5a5a});
        }
        EXPECT_EQ(wrong, 0) << count;
        std::vector<float> back(values.size());
        copies.get(rows, back.data());
        EXPECT_TRUE(back == values) << count;
    }
}

} // namespace
} // namespace hw4::bench::gpu_side
