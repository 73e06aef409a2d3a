#include "src/step/checkpoint.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/step/tensor_header.h"
#include "tests/support/settings.h"
#include "tests/support/small_training.h"

namespace hw4::step {
namespace {

using test::Failure;
using test::failure_of;

// Parameters, m and v; between two tensors is what a checkpoint must not store.
using Arrays = std::array<std::vector<float>, 3>;

Arrays numbered(const Parameters& parameters) {
    Arrays arrays;
    for (size_t array = 0; array < arrays.size(); ++array) {
        arrays[array].resize(parameters.floats);
        for (const Parameter& tensor : parameters.list)
            for (size_t i = 0; i < tensor.count(); ++i)
                arrays[array][tensor.first + i] =
                    static_cast<float>(tensor.first + i) + 0.25f * static_cast<float>(array);
    }
    return arrays;
}

class StepCheckpoint : public testing::Test {
protected:
    void SetUp() override {
        state_.settings = test::small_settings();
        state_.settings.learning_rate = 0.1;
        state_.step = 7;
        state_.tokens = 300;
        state_.tokens_crc32 = "0123abcd";
        write();
        bytes_ = test::read_file(path_);
    }

    void write() {
        OutputFile file(path_, interrupts_);
        write_checkpoint(file, state_, [&](size_t array, size_t first, float* to, size_t count) {
            std::copy_n(arrays_[array].begin() + static_cast<ptrdiff_t>(first), count, to);
        });
        file.commit(false);
    }

    Arrays read() {
        Arrays arrays;
        for (auto& array : arrays) array.resize(parameters_.floats);
        CheckpointReader(path_).read([&](size_t array, size_t first, const float* from, size_t count) {
            std::copy_n(from, count, arrays[array].begin() + static_cast<ptrdiff_t>(first));
        });
        return arrays;
    }

    uint64_t header_bytes() const {
        uint64_t length = 0;
        std::memcpy(&length, bytes_.data(), sizeof length);
        return length;
    }
    std::string header() const { return bytes_.substr(8, header_bytes()); }
    std::string numbers() const { return bytes_.substr(8 + header_bytes()); }

    void write_with(const std::string& header, const std::string& numbers) {
        const uint64_t length = header.size();
        test::write_file(path_, test::bytes_of(&length, 1) + header + numbers);
    }

    // What reading says of a file with this header.
    std::string refused(const std::string& header) {
        write_with(header, numbers());
        return refused();
    }
    std::string refused() {
        const Failure failure = failure_of([&] { read(); });
        EXPECT_EQ(failure.code, ExitCode::bad_data);
        EXPECT_EQ(failure.message.rfind(path_ + ": no ", 0), 0u) << failure.message;
        return failure.message.substr(std::min(failure.message.size(), path_.size() + 2));
    }

    std::string with(const std::string& from, const std::string& to) const {
        std::string text = header();
        const size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return text.replace(at, from.size(), to);
    }

    InterruptGuard interrupts_;
    test::TemporaryFolder folder_;
    const std::string path_ = folder_ / "c";
    TrainingState state_;
    const Parameters parameters_ = parameters_of(test::small_settings().model);
    const Arrays arrays_ = numbered(parameters_);
    std::string bytes_;
};

const std::string kNone = "no checkpoint of hw4 train: ";

TEST_F(StepCheckpoint, ComesBackAsItWas) {
    EXPECT_EQ(read(), arrays_);
    const CheckpointReader reader(path_);
    EXPECT_EQ(texts_of(reader.state().settings), texts_of(state_.settings));
    EXPECT_EQ(reader.state().step, 7);
    EXPECT_EQ(reader.state().tokens, 300);
    EXPECT_EQ(reader.state().tokens_crc32, "0123abcd");
}

TEST_F(StepCheckpoint, HasNothingOfThePlaceWhereItWasWritten) {
    const std::string end = R"("step":"7","tokens":"300","tokens_crc32":"0123abcd","crc32":")";
    const std::string start = R"({"__metadata__":{"contract":"f32.step/1","width":"12","hidden":"20","layers":"2",)"
                              R"("heads":"3","vocabulary":"11","batch":"5","context":"7","steps":"20","seed":"1",)"
                              R"("learning_rate":"0.1","clip":"1","weight_decay":"0.1","beta1":"0.9",)"
                              R"("beta2":"0.95","eps":"1e-08",)";
    EXPECT_EQ(header().substr(0, start.size() + end.size()), start + end);
    EXPECT_EQ(header_bytes() % 8, 0u);
    EXPECT_NE(header().find(R"("m.layers.0.attention_norm.weight":{"dtype":"F32","shape":[12],"data_offsets":[)"),
              std::string::npos);
}

TEST_F(StepCheckpoint, TakesKeysInAnyOrderAndBlanksAnywhere) {
    // The metadata last, with blanks.
    const std::string text = header();
    const size_t after = text.find("},") + 2;
    const size_t end = text.rfind('}');
    std::string metadata = text.substr(1, after - 2);
    for (size_t at = 0; (at = metadata.find(':', at)) != std::string::npos; at += 3) metadata.replace(at, 1, " :\n");
    write_with("{ " + text.substr(after, end - after) + " ,\t" + metadata + " }   ", numbers());
    EXPECT_EQ(read(), arrays_);
}

TEST_F(StepCheckpoint, RefusesEveryCutAndEveryFlippedByteOfTheNumbers) {
    for (const size_t size : {size_t{0}, size_t{7}, size_t{8}, size_t{9}, 7 + size_t{header_bytes()},
                              8 + size_t{header_bytes()}, bytes_.size() - 1}) {
        test::write_file(path_, bytes_.substr(0, size));
        refused();
    }
    test::write_file(path_, bytes_ + "x");
    refused();
    for (const size_t from_end : {size_t{1}, size_t{4000}, numbers().size()}) {
        std::string flipped = bytes_;
        flipped[flipped.size() - from_end] ^= 1;
        test::write_file(path_, flipped);
        EXPECT_EQ(refused().rfind(kNone + "its numbers have CRC-32 ", 0), 0u);
    }
}

// A flipped bit makes another header, or one that says the same: a blank of the padding has white space beside it.
TEST_F(StepCheckpoint, RefusesEveryFlippedByteOfTheHeader) {
    const size_t padding = header().find_last_not_of(' ') + 1;
    for (size_t at = 0; at < 8 + padding; at += test::soaks() ? 1 : 17) {
        std::string flipped = bytes_;
        flipped[at] ^= 4;
        test::write_file(path_, flipped);
        EXPECT_EQ(failure_of([&] {
                      const CheckpointReader reader(path_);
                      if (texts_of(reader.state().settings) != texts_of(state_.settings) || reader.state().step != 7 ||
                          reader.state().tokens != 300 || reader.state().tokens_crc32 != "0123abcd")
                          throw Error(ExitCode::bad_data, "another run");
                      read();
                  }).code,
                  ExitCode::bad_data)
            << at;
    }
}

TEST_F(StepCheckpoint, SaysWhatIsNotItsOwn) {
    EXPECT_EQ(refused(with("f32.step/1", "f32.step/2")), kNone + "contract f32.step/2, need f32.step/1");
    EXPECT_EQ(refused(with(R"("step":"7")", R"("step":"21")")), kNone + "step '21' in its metadata");
    EXPECT_EQ(refused(with(R"("seed":"1",)", "")), kNone + "its metadata has no 'seed'");
    EXPECT_EQ(refused(with(R"("seed":"1")", R"("seed":"01")")), kNone + "seed '01' in its metadata");
    EXPECT_EQ(refused(with(R"("seed":"1")", R"("seed":"1","host":"me")")), kNone + "its metadata has 'host'");
    EXPECT_EQ(refused(with(R"("heads":"3")", R"("heads":"4")")),
              kNone + "width 12 in 4 heads: need heads of equal and even width");
    EXPECT_EQ(refused(with(R"("layers":"2")", R"("layers":"1")")), kNone + "it has 45 tensors, need 27");
    EXPECT_EQ(refused(with(R"("layers":"2")", R"("layers":"3")")),
              kNone + "it has no tensor layers.2.attention_norm.weight");
    EXPECT_EQ(refused(with("[11,12]", "[12,11]")),
              kNone + "embedding.weight is F32 [12,11] in 528 bytes, need F32 [11,12]");
    EXPECT_EQ(refused(with("F32", "F16")), kNone + "embedding.weight is F16 [11,12] in 528 bytes, need F32 [11,12]");
    const std::string overlap =
        kNone + "its tensors do not fill the " + std::to_string(numbers().size()) + " bytes after the header";
    EXPECT_EQ(refused(with("[528,576]", "[524,572]")), overlap);
    EXPECT_EQ(refused(with("[528,576]", "[0,48]")), overlap);
}

TEST(TensorHeader, RefusesOtherText) {
    const auto refused = [](const std::string& text) {
        const Failure failure = failure_of([&] { parse_tensor_header("c", text); });
        return failure.code == ExitCode::bad_data ? failure.message : "taken";
    };
    const auto no = [](const std::string& what, int byte) {
        return "c: no header of safetensors: " + what + " at byte " + std::to_string(byte) + " of the header";
    };
    EXPECT_EQ(refused(""), no("no '{'", 0));
    EXPECT_EQ(refused("[]"), no("no '{'", 0));
    EXPECT_EQ(refused("{} x"), no("more than one object", 3));
    EXPECT_EQ(refused(R"({"a)"), no("a string without an end", 2));
    EXPECT_EQ(refused(R"({"a\n":{}})"), no("a string with an escape", 2));
    EXPECT_EQ(refused(R"({"a":{"dtype":"F32"}})"), no("a tensor without a place", 20));
    EXPECT_EQ(refused(R"({"a":{"data_offsets":[3,2]}})"), no("a tensor without a place", 27));
    EXPECT_EQ(refused(R"({"a":{"shape":[-1]}})"), no("no whole number", 15));
    EXPECT_EQ(refused(R"({"a":{"shape":[99999999999999999999]}})"), no("no whole number", 15));
    EXPECT_EQ(refused(R"({"a":{"size":1}})"), no("'size'", 13));
    EXPECT_EQ(refused(R"({"a":{"data_offsets":[0,4]},"a":{"data_offsets":[0,4]}})"),
              no("the tensor a a second time", 54));
    EXPECT_EQ(refused(R"({"__metadata__":{"a":"1","a":"2"}})"), no("'a' a second time", 32));
    EXPECT_EQ(refused(R"({"__metadata__":{},"__metadata__":{}})"), no("__metadata__ a second time", 34));
    EXPECT_EQ(refused("{}"), "taken");
}

} // namespace
} // namespace hw4::step
