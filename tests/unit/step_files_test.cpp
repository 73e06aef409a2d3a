#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "src/step/checkpoint.h"
#include "src/step/configuration.h"
#include "src/step/model.h"
#include "src/step/philox.h"
#include "src/step/tokens.h"
#include "src/step/weights.h"
#include "tests/support/settings.h"
#include "tests/support/small_training.h"

namespace hw4::step {
namespace {

template <class Token>
std::string stored(const std::vector<int>& values) {
    const std::vector<Token> tokens(values.begin(), values.end());
    return bytes_of(tokens.data(), tokens.size());
}

std::string npy(const std::string& element, const std::string& shape, const std::string& numbers) {
    std::string words = "{'descr': '" + element + "', 'fortran_order': False, 'shape': " + shape + ", }";
    words += std::string(117 - words.size(), ' ') + "\n";
    return std::string("\x93NUMPY\1\0\x76\0", 10) + words + numbers;
}

const std::vector<int> kTokens = {1, 0, 3, 10, 7, 2, 9, 8};

class StepTokens : public testing::Test {
protected:
    TokenFile read(const std::string& bytes, int bits = 16) {
        write_file(folder_ / "t", bytes);
        return {folder_ / "t", bits, settings_};
    }
    Failure failure(const std::string& bytes, int bits = 16) {
        Failure found = failure_of([&] { read(bytes, bits); });
        const size_t at = found.message.find(folder_ / "t");
        if (at != std::string::npos) found.message.replace(at, (folder_ / "t").size(), "t");
        return found;
    }
    static Failure bad(const std::string& what) { return {ExitCode::bad_data, "t: " + what}; }

    TemporaryFolder folder_;
    Configuration settings_ = small_settings(); // 11 tokens, a context of 7
};

TEST_F(StepTokens, AreTheSameInEveryForm) {
    const TokenFile plain = read(stored<uint16_t>(kTokens));
    ASSERT_EQ(plain.count(), 8);
    const Tokens sequence = plain.sequences(settings_, 0, 0, 1); // the only sequence
    EXPECT_EQ(sequence.inputs, (std::vector<int32_t>{1, 0, 3, 10, 7, 2, 9}));
    EXPECT_EQ(sequence.targets, (std::vector<int32_t>{0, 3, 10, 7, 2, 9, 8}));
    const TokenFile others[] = {read(stored<uint32_t>(kTokens), 32),
                                read(npy("<u2", "(8,)", stored<uint16_t>(kTokens)), 32),
                                read(npy("<u4", "(8,)", stored<uint32_t>(kTokens)))};
    for (const TokenFile& other : others) {
        EXPECT_EQ(other.crc32(), plain.crc32());
        EXPECT_EQ(other.sequences(settings_, 0, 0, 1).inputs, sequence.inputs);
    }
}

TEST_F(StepTokens, ComeThroughAPipeToTheLast) {
    const std::string bytes((size_t{40} << 20) + 2, '\0'); // longer than one read, and than two
    const std::string pipe = folder_ / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    std::thread writer([&] { write_file(pipe, bytes); });
    const TokenFile text(pipe, 16, settings_);
    writer.join();
    EXPECT_EQ(text.count(), (20 << 20) + 1);
}

TEST_F(StepTokens, RefusesWhatIsNoText) {
    std::vector<int> beyond = kTokens;
    beyond[5] = 11;
    EXPECT_EQ(failure(stored<uint16_t>(beyond)), bad("token 5 is 11, need less than the vocabulary, 11"));
    beyond[5] = -1;
    EXPECT_EQ(failure(stored<uint32_t>(beyond), 32), bad("token 5 is 4294967295, need less than the vocabulary, 11"));
    EXPECT_EQ(failure(stored<uint16_t>({1, 2, 3, 4, 5, 6, 7})),
              bad("has 7 tokens, need 8: a context and the token after"));
    EXPECT_EQ(failure(""), bad("has 0 tokens, need 8: a context and the token after"));
    EXPECT_EQ(failure(stored<uint16_t>(kTokens) + "x"), bad("has 17 bytes, need a multiple of 2"));
    EXPECT_EQ(failure(stored<uint16_t>({1, 2, 3}), 32), bad("has 6 bytes, need a multiple of 4"));
    EXPECT_EQ(failure(npy("<f4", "(8,)", stored<uint32_t>(kTokens))),
              bad("is a NumPy .npy file with elements '<f4', need '<u2' or '<u4'"));
    EXPECT_EQ(failure(npy("<u2", "(2, 4)", stored<uint16_t>(kTokens))),
              bad("is a NumPy .npy file of shape (2, 4), need (N,): one row of tokens"));
    EXPECT_EQ(failure(npy("<u2", "(9,)", stored<uint16_t>(kTokens))),
              bad("has 144 bytes, need 146 for the 9 tokens of its header"));
    EXPECT_EQ(failure(npy("<u2", "(8,)", "").substr(0, 60)), bad("header truncated (.npy)"));
    EXPECT_EQ(failure_of([&] { TokenFile(folder_ / "none", 16, settings_); }).code, ExitCode::no_input);
}

TEST_F(StepTokens, SequencesBeginAnywhereAndOnlyThere) {
    std::set<int64_t> starts;
    for (int64_t sequence = 0; sequence < 1000; ++sequence) starts.insert(start_of_sequence(1, sequence, 27, 7));
    EXPECT_EQ(starts.size(), 20u);
    EXPECT_EQ(*starts.begin(), 0);
    EXPECT_EQ(*starts.rbegin(), 19); // tokens 19 to 25, and 26 as the next
    EXPECT_NE(start_of_sequence(1, 0, 1 << 30, 7), start_of_sequence(2, 0, 1 << 30, 7));
}

TEST_F(StepTokens, ABatchIsTheSameInParts) {
    const TokenFile text = read(small_text());
    const Tokens whole = text.sequences(settings_, 3, 0, 5);
    EXPECT_EQ(whole.rows(), 35);
    Tokens parts = text.sequences(settings_, 3, 0, 2);
    const Tokens rest = text.sequences(settings_, 3, 2, 3);
    parts.inputs.insert(parts.inputs.end(), rest.inputs.begin(), rest.inputs.end());
    EXPECT_EQ(parts.inputs, whole.inputs);
    // The sequences of all steps have consecutive numbers.
    EXPECT_EQ(text.sequences(settings_, 0, 17, 1).inputs, text.sequences(settings_, 3, 2, 1).inputs);
}

// A model's tensors, their first values, and the learning rate.

// Values from the authors' kat_vectors (Random123).
TEST(Philox, GivesTheKnownAnswers) {
    EXPECT_EQ(philox({0, 0, 0, 0}, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~uint64_t{0}),
              (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
              (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

Parameter matrix(int64_t rows, int64_t columns, int64_t parts, Initial initial) {
    return {"any", rows, columns, initial, parts, 0};
}

std::vector<float> drawn(const Parameter& parameter, size_t place = 3, uint64_t seed = 7) {
    std::vector<float> weights(parameter.count());
    draw_weights(parameter, place, seed, 0, weights.size(), weights.data());
    return weights;
}

// The moments of the normal distribution cut at 3.
void expect_normal(const std::vector<float>& weights, double deviation) {
    double sum = 0;
    double squares = 0;
    double most = 0;
    size_t beyond_two = 0;
    for (const float weight : weights) {
        const double x = weight / deviation;
        sum += x;
        squares += x * x;
        most = std::max(most, std::fabs(x));
        beyond_two += std::fabs(x) > 2 ? 1 : 0;
    }
    const auto count = static_cast<double>(weights.size());
    EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
    EXPECT_NEAR(squares / count, 0.97334, 7 / std::sqrt(count));
    EXPECT_NEAR(static_cast<double>(beyond_two) / count, 0.04293, 1 / std::sqrt(count));
    EXPECT_LE(most, 3.0000001);
    EXPECT_GT(most, 2.9);
}

TEST(StepWeights, AreNormalWithTheDeviationOfTheirOwnMatrix) {
    expect_normal(drawn(matrix(300, 100, 1, Initial::scaled)), std::sqrt(2.0 / 400));
    expect_normal(drawn(matrix(300, 100, 3, Initial::scaled)), std::sqrt(2.0 / 200));
    expect_normal(drawn(matrix(300, 100, 1, Initial::normal)), 1);
}

TEST(StepWeights, AreTheSameInPieces) {
    const Parameter parameter = matrix(37, 41, 1, Initial::scaled); // an odd number of weights
    const std::vector<float> whole = drawn(parameter);
    std::vector<float> pieces(whole.size());
    for (size_t first = 0; first < pieces.size(); first += 100)
        draw_weights(parameter, 3, 7, first, std::min<size_t>(100, pieces.size() - first), pieces.data() + first);
    EXPECT_EQ(pieces, whole);
}

TEST(StepWeights, DependOnSeedAndPlace) {
    const Parameter parameter = matrix(20, 20, 1, Initial::scaled);
    EXPECT_NE(drawn(parameter, 3, 7), drawn(parameter, 4, 7));
    EXPECT_NE(drawn(parameter, 3, 7), drawn(parameter, 3, 8));
    EXPECT_NE(drawn(parameter, 3, 7), drawn(parameter, 3, 7 + (uint64_t{1} << 32)));
}

int64_t count_of(const Model& model) {
    int64_t count = 0;
    for (const Parameter& parameter : parameters_of(model).list) count += static_cast<int64_t>(parameter.count());
    return count;
}

TEST(StepModel, PresetsHaveTheCoursesNumbersOfParameters) {
    const std::map<std::string, int64_t> expected = {
        {"small", 128625408}, {"medium", 423183360}, {"large", 969411840}, {"xl", 1998235200},
        {"2.7B", 3406809600}, {"71m", 71315968},     {"tiny", 164160},
    };
    for (const Preset& preset : presets()) {
        EXPECT_EQ(count_of(preset.model), expected.at(preset.name)) << preset.name;
        EXPECT_EQ(why_no_model(preset.model), "") << preset.name;
    }
    EXPECT_EQ(presets().size(), expected.size());
}

TEST(StepModel, TensorsBeginAtSegmentsOneAfterTheOther) {
    const Parameters parameters = parameters_of({12, 20, 2, 3, 11});
    size_t end = 0;
    for (const Parameter& parameter : parameters.list) {
        EXPECT_EQ(parameter.first, (end + kSegment - 1) / kSegment * kSegment) << parameter.name;
        end = parameter.first + parameter.count();
    }
    EXPECT_EQ(parameters.floats, (end + kSegment - 1) / kSegment * kSegment);
}

TEST(StepSchedule, RisesForATenthAndFallsToATenth) {
    Configuration settings;
    settings.steps = 45; // 4 of them in the warm-up
    settings.learning_rate = 0.5;
    EXPECT_EQ(learning_rate_of(settings, 1), 0.125);
    EXPECT_EQ(learning_rate_of(settings, 4), 0.5);
    for (int64_t step = 5; step <= 45; ++step) {
        const double angle = std::acos(-1.0) * static_cast<double>(step - 4) / 41;
        EXPECT_NEAR(learning_rate_of(settings, step), 0.05 + 0.225 * (1 + std::cos(angle)), 1e-15) << step;
    }
    EXPECT_NEAR(learning_rate_of(settings, 45), 0.05, 1e-15);
}

TEST(StepSchedule, FewStepsHaveNoWarmUp) {
    Configuration settings;
    settings.steps = 2;
    EXPECT_NEAR(learning_rate_of(settings, 1), 5.5e-4, 1e-18);
    EXPECT_NEAR(learning_rate_of(settings, 2), 1e-4, 1e-18);
}

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
