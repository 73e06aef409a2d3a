// What the fuzzer calls: any bytes as a case file. Where a promise is broken it throws Broken (or whatever it was that
// should not have been thrown). Under libFuzzer that ends the run and keeps the bytes. `make test` calls the same
// function with each file of make_corpus (../unit/fuzz_corpus_test.cpp).
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

} // namespace hw4::fuzz
