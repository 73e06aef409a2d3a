// What the fuzzers call. Each function takes any bytes and does with them what the project does with the same bytes
// from a user; where a promise is broken it throws Broken (or whatever it was that should not have been thrown). Under
// libFuzzer (driver.cpp) that ends the run and keeps the bytes. `make test` calls the same functions with each file of
// make_corpus (../unit/fuzz_corpus_test.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace hw4::fuzz {

struct Broken : std::logic_error {
    using std::logic_error::logic_error;
};

inline void expect(bool promise, const std::string& what) {
    if (!promise) throw Broken(what);
}

// The bytes as a file, plain or gzip, as a regular file and through a pipe.
void case_reader(const uint8_t* data, size_t size);

// The bytes as the words of a command line, each ended by a zero byte.
void command_line(const uint8_t* data, size_t size);

// The bytes as a small problem and the bits of its floats, for every CPU kernel.
void kernels(const uint8_t* data, size_t size);

} // namespace hw4::fuzz
