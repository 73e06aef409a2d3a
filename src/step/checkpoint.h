// A checkpoint: one safetensors file of all that the next step needs. Eight bytes say how long the header is; the
// header is JSON, padded with blanks to a multiple of 8; then the numbers, float32, little-endian: parameters, named as
// in model.h, then AdamW's m and v, as "m." and "v." before the same names.
//
// The header's "__metadata__" has the contract's revision, every setting, how many steps were taken, how many tokens
// the text has, their CRC-32 and that of the numbers. There is no time, host, thread count or program name in it: the
// same run gives the same file everywhere.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/io/byte_source.h"
#include "src/io/output_file.h"
#include "src/step/configuration.h"

namespace hw4::step {

struct TrainingState {
    Configuration settings;
    int64_t step = 0;   // steps taken
    int64_t tokens = 0; // of the text
    std::string tokens_crc32;
};

// get(array, first, to, count) and put(array, first, from, count) copy a part of the parameters (array 0), of m (1) or
// of v (2) from and to the trainer.
using GetFloats = std::function<void(size_t array, size_t first, float* to, size_t count)>;
using PutFloats = std::function<void(size_t array, size_t first, const float* from, size_t count)>;

void write_checkpoint(OutputFile& file, const TrainingState& state, const GetFloats& get);

class CheckpointReader {
public:
    // Reads the header. Throws Error: no_input, io_error, or bad_data where the header is not, byte for byte, that of
    // a checkpoint of this program, or where the file has another length.
    explicit CheckpointReader(const std::string& name);

    const TrainingState& state() const { return state_; }
    std::string crc32() const; // of the numbers
    // Throws Error (bad_data) where the numbers do not have their CRC-32.
    void read(const PutFloats& put) const;

private:
    std::string metadata(const std::string& key) const;
    template <class Number>
    Number number(const std::string& key, Number least, Number most) const;
    void take_state();
    void check_header() const;

    std::string path_;
    std::unique_ptr<PlainSource> source_;
    std::string header_;
    uint64_t first_ = 0; // byte of the numbers in the file
    TrainingState state_;
};

} // namespace hw4::step
