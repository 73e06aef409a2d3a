// The text that a model is trained on: a file of tokens, uint16 or uint32, little-endian, plain or as NumPy's .npy, and
// the sequences that a step takes from it.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/untouched_vector.h"
#include "src/step/configuration.h"
#include "src/step/machine.h"

namespace hw4::step {

// Where sequence number `sequence` of the whole training begins: drawn from (seed, sequence) alone, so that no rank, no
// thread and no micro-batch enters. It has context tokens, and the one that the last of them is to predict.
int64_t start_of_sequence(int64_t seed, int64_t sequence, int64_t tokens, int64_t context);

class TokenFile {
public:
    // Reads the whole file, or standard input where the name is "-". `bits` of a token, 16 or 32, are for a file that
    // is not .npy. Throws Error: no_input, io_error; bad_data where a token is not below the vocabulary, or where there
    // are too few tokens for a sequence.
    TokenFile(const std::string& name, int bits, const Configuration& settings);

    int64_t count() const { return count_; }
    // The CRC-32 of all tokens as uint32: the same for a file of uint16.
    const std::string& crc32() const { return crc32_; }

    // Sequences `first` to `first + count - 1` of a step, which counts from 0.
    Tokens sequences(const Configuration& settings, int64_t step, int64_t first, int64_t count) const;

private:
    void read(const std::string& name);
    void take_form(int bits);
    void check(int64_t vocabulary);
    uint32_t at(int64_t index) const;

    std::string path_; // as messages name it
    UntouchedVector<unsigned char> bytes_;
    size_t begin_ = 0; // of the tokens
    size_t width_ = 2; // bytes of a token
    int64_t count_ = 0;
    std::string crc32_;
};

} // namespace hw4::step
