// The fuzzer calls this function: it takes any bytes as a case file. Where a promise is broken, it throws Broken or
// lets another unexpected exception through. Under libFuzzer that ends the run and keeps the bytes. `make test` calls
// the same function with the files of ../unit/case_reader_test.cpp.
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

// Reads the bytes as a file, plain or gzip, as a regular file and through a pipe. Returns whether they are a case.
bool case_reader(const uint8_t* data, size_t size);

} // namespace hw4::fuzz
