// The JSON header of a safetensors file: names of tensors with their element, shape and place, and "__metadata__", a
// map of strings. Keys may stand in any order, with any white space between; strings have no escapes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hw4::step {

struct StoredTensor {
    std::string element; // "F32"
    std::vector<int64_t> shape;
    uint64_t begin = 0; // in bytes, from the end of the header
    uint64_t end = 0;
};

struct TensorHeader {
    std::map<std::string, std::string> metadata;
    std::map<std::string, StoredTensor> tensors;
};

// Throws Error (bad_data) with the place where the text is something else.
TensorHeader parse_tensor_header(const std::string& path, const std::string& text);

} // namespace hw4::step
