#include "../src/engine.h"

#include <limits>

#include "temporary_folder.h"

namespace hw4 {
namespace {

using test::Failure;
using test::failure_of;

TEST(ChunkBatches, FillsSixteenMebibytes) {
    EXPECT_EQ(chunk_batches_for({13600, 128, 32}, 1), 341); // batches of 48 KiB
    EXPECT_EQ(chunk_batches_for({500, 2048, 64}, 1), 10);   // of 1.5 MiB
    EXPECT_EQ(chunk_batches_for({1 << 24, 1, 1}, 1), (16 << 20) / 12);
}

TEST(ChunkBatches, NeverMoreThanThereAre) {
    EXPECT_EQ(chunk_batches_for({7, 128, 32}, 1), 7);
    EXPECT_EQ(chunk_batches_for({1, 1, 1}, 1), 1);
}

TEST(ChunkBatches, AtLeastOne) {
    EXPECT_EQ(chunk_batches_for({2, 32768, 64}, 1), 1);                          // batches of 24 MiB
    EXPECT_EQ(chunk_batches_for({100, 32768, 42}, 1), 1);                        // 15.75 MiB
    EXPECT_EQ(chunk_batches_for({100, 16384, 42}, 1), 2);                        // half of that
    EXPECT_EQ(chunk_batches_for({3, int64_t{1} << 31, int64_t{1} << 27}, 1), 1); // nearly 2^63 bytes
}

class ReadChecked : public ::testing::Test {
protected:
    // 3 batches of 2 tokens with 1 feature; the floats count 0..17 but for one.
    void write_case(size_t flawed, float value) {
        std::string bytes = test::counting_case(3, 2, 1);
        std::memcpy(bytes.data() + 12 + 4 * flawed, &value, sizeof value);
        test::write_file(path_, bytes);
    }

    test::TemporaryFolder folder_;
    std::string path_ = folder_ / "a.in";
};

TEST_F(ReadChecked, GivesTheNextBatches) {
    write_case(0, 0.5f);
    CaseReader input(path_);
    std::vector<float> data(12);
    read_checked(input, 0, 1, data.data());
    EXPECT_EQ(std::vector<float>(data.begin(), data.begin() + 6), (std::vector<float>{0.5f, 1, 2, 3, 4, 5}));
    read_checked(input, 1, 2, data.data());
    EXPECT_EQ(data, (std::vector<float>{6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}));
    input.expect_end();
}

TEST_F(ReadChecked, NamesTheBatchOfTheFile) {
    write_case(15, std::numeric_limits<float>::quiet_NaN());
    CaseReader input(path_);
    std::vector<float> data(12);
    read_checked(input, 0, 1, data.data());
    EXPECT_EQ(failure_of([&] { read_checked(input, 1, 2, data.data()); }),
              (Failure{ExitCode::bad_data, path_ + ": batch 2, K, row 1, column 0: nan, need a finite number"}));
}

TEST(StageTimer, AddsToWhatIsThere) {
    using Clock = std::chrono::steady_clock;
    double seconds = 1000;
    for (int round = 0; round < 2; ++round) {
        const double before = seconds;
        {
            const StageTimer timer(seconds);
            const auto start = Clock::now();
            while (Clock::now() - start < std::chrono::microseconds(10)) {
            }
            EXPECT_EQ(seconds, before); // only at the end of the scope
        }
        EXPECT_GT(seconds, before);
    }
}

} // namespace
} // namespace hw4
