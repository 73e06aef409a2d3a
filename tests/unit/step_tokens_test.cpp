#include "src/step/tokens.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <thread>
#include <vector>

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

} // namespace
} // namespace hw4::step
