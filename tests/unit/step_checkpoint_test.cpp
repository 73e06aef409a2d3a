#include "src/step/checkpoint.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/settings.h"
#include "tests/support/small_training.h"

namespace hw4::step {
namespace {

using Arrays = std::array<std::vector<float>, 3>; // parameters, m and v

Arrays numbered(const Parameters& parameters) {
    Arrays arrays;
    for (size_t array = 0; array < arrays.size(); ++array) {
        arrays[array].resize(parameters.floats); // gaps between tensors are not stored, and stay 0
        for (const Parameter& tensor : parameters.list)
            for (size_t i = tensor.first; i < tensor.first + tensor.count(); ++i)
                arrays[array][i] = static_cast<float>(4 * i + array);
    }
    return arrays;
}

class StepCheckpoint : public testing::Test {
protected:
    void SetUp() override {
        state_ = {small_settings(), 7, 300, "0123abcd"};
        write();
    }

    void write() {
        OutputFile file(path_, interrupts_);
        write_checkpoint(file, state_, [&](size_t array, size_t first, float* to, size_t count) {
            std::copy_n(arrays_[array].begin() + static_cast<ptrdiff_t>(first), count, to);
        });
        file.commit(false);
        bytes_ = read_file(path_);
        uint64_t length = 0;
        std::memcpy(&length, bytes_.data(), sizeof length);
        header_ = bytes_.substr(8, length);
        numbers_ = bytes_.substr(8 + length);
    }

    Arrays read() {
        Arrays arrays;
        for (auto& array : arrays) array.resize(parameters_.floats);
        CheckpointReader(path_).read([&](size_t array, size_t first, const float* from, size_t count) {
            std::copy_n(from, count, arrays[array].begin() + static_cast<ptrdiff_t>(first));
        });
        return arrays;
    }

    void write_with(const std::string& header) {
        const uint64_t length = header.size();
        write_file(path_, bytes_of(&length, 1) + header + numbers_);
    }

    // The refusal of these bytes, without the file's name.
    std::string refused(const std::string& bytes) {
        write_file(path_, bytes);
        const Failure failure = failure_of([&] { read(); });
        EXPECT_EQ(failure.code, ExitCode::bad_data) << failure.message;
        return failure.message.substr(std::min(failure.message.size(), path_.size() + 2));
    }
    std::string refused_with(const std::string& from, const std::string& to) {
        std::string header = header_;
        const size_t at = header.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        write_with(header.replace(at, from.size(), to));
        return refused(read_file(path_));
    }

    InterruptGuard interrupts_;
    TemporaryFolder folder_;
    const std::string path_ = folder_ / "c";
    TrainingState state_;
    const Parameters parameters_ = parameters_of(small_settings().model);
    const Arrays arrays_ = numbered(parameters_);
    std::string bytes_, header_, numbers_;
};

TEST_F(StepCheckpoint, ComesBackAsItWas) {
    EXPECT_EQ(read(), arrays_);
    const TrainingState state = CheckpointReader(path_).state();
    EXPECT_EQ(texts_of(state.settings), texts_of(state_.settings));
    EXPECT_EQ(state.step, 7);
    EXPECT_EQ(state.tokens, 300);
    EXPECT_EQ(state.tokens_crc32, "0123abcd");
}

TEST_F(StepCheckpoint, OfBf16HasItsMicroBatch) {
    EXPECT_EQ(header_.find("micro_batch"), std::string::npos); // it decides no byte of f32
    state_.settings.contract = &kBf16;
    state_.settings.micro_batch = 2;
    write();
    EXPECT_EQ(read(), arrays_);
    const TrainingState state = CheckpointReader(path_).state();
    EXPECT_EQ(texts_of(state.settings), texts_of(state_.settings));
    EXPECT_EQ(texts_of(state.settings).back().second, "2");
    EXPECT_EQ(refused_with(R"("micro_batch":"2")", R"("micro_batch":"3")"),
              "no checkpoint of hw4 train: micro_batch '3'");
    EXPECT_EQ(refused_with("bf16.step/1", "fp16.step/1"),
              "no checkpoint of hw4 train: contract fp16.step/1, need f32.step/1 or bf16.step/1");
}

// The header is compared with the one that the settings give.
TEST_F(StepCheckpoint, RefusesOtherBlanksAndAnotherOrder) {
    const std::string wrong = "no checkpoint of hw4 train: its header has ";
    EXPECT_EQ(refused_with(R"("seed":"1")", R"("seed": "1")"),
              "no checkpoint of hw4 train: its metadata has no 'seed'");
    write_with(header_ + "        ");
    EXPECT_EQ(refused(read_file(path_)).rfind(wrong, 0), 0u);
    const size_t after = header_.find("},") + 2; // the metadata, which comes last now
    write_with("{" + header_.substr(after, header_.rfind('}') - after) + "," + header_.substr(1, after - 2) + "}");
    EXPECT_EQ(refused(read_file(path_)).rfind(wrong, 0), 0u);
}

TEST_F(StepCheckpoint, RefusesEveryCutAndEveryFlippedByteOfTheNumbers) {
    for (const size_t size :
         {size_t{0}, size_t{7}, size_t{8}, size_t{9}, 7 + header_.size(), 8 + header_.size(), bytes_.size() - 1})
        refused(bytes_.substr(0, size));
    refused(bytes_ + "x");
    for (const size_t at : {size_t{0}, size_t{4000}, numbers_.size() - 1}) {
        std::string flipped = bytes_;
        flipped[8 + header_.size() + at] ^= 1;
        EXPECT_EQ(refused(flipped).rfind("no checkpoint of hw4 train: its numbers have CRC-32 ", 0), 0u);
    }
}

// A flipped bit in a digit may also make the checkpoint of another run.
TEST_F(StepCheckpoint, RefusesFlippedBytesOfTheHeader) {
    const size_t end = 8 + header_.find_last_not_of(' ') + 1;
    for (size_t at = 0; at < end; at += soaks() ? 1 : 17) {
        std::string flipped = bytes_;
        flipped[at] ^= 4;
        write_file(path_, flipped);
        const Failure failure = failure_of([&] {
            const TrainingState state = CheckpointReader(path_).state();
            if (texts_of(state.settings) == texts_of(state_.settings) && state.step == 7 && state.tokens == 300 &&
                state.tokens_crc32 == "0123abcd")
                read();
            else
                throw Error(ExitCode::bad_data, "another run");
        });
        EXPECT_EQ(failure.code, ExitCode::bad_data) << at;
    }
}

TEST_F(StepCheckpoint, SaysWhatIsNotItsOwn) {
    const std::string no = "no checkpoint of hw4 train: ";
    EXPECT_EQ(refused_with("f32.step/1", "f32.step/2"), no + "contract f32.step/2, need f32.step/1 or bf16.step/1");
    EXPECT_EQ(refused_with(R"("step":"7")", R"("step":"21")"), no + "step '21' in its metadata");
    EXPECT_EQ(refused_with(R"("seed":"1",)", ""), no + "its metadata has no 'seed'");
    EXPECT_EQ(refused_with(R"("seed":"1")", R"("seed":"01")"), no + "seed '01' in its metadata");
    EXPECT_EQ(refused_with(R"("seed":"1",)", R"("seed":"1","host":"me",)"),
              no + R"(its header has '"host":"me","learning_rate":"0.001","cli' at byte 162 of it, need )" +
                  R"('"learning_rate":"0.001","clip":"1","weig')");
    EXPECT_EQ(refused_with(R"("heads":"3")", R"("heads":"4")"),
              no + "width 12 in 4 heads: need heads of equal and even width");
    for (const auto& [from, to] : {std::pair(R"("layers":"2")", R"("layers":"1")"), std::pair("[11,12]", "[12,11]"),
                                   std::pair("F32", "F16"), std::pair(R"("norm.weight":)", R"("nor.weight":)")})
        EXPECT_EQ(refused_with(from, to).rfind(no + "its header has '", 0), 0u) << from;
}

} // namespace
} // namespace hw4::step
