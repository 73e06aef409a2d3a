// NumPy's own file format, version 1: a header that says element, order and shape in Python's words, then the numbers.
// Of it only float32, little-endian, in C order, is read and written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/io/case_header.h"

namespace hw4 {

using Shape = std::vector<int64_t>;

// By the first bytes.
bool is_npy(const Bytes& start);

// How long the header is that begins so; `start` has at least 10 bytes. Throws Error (bad_data).
size_t npy_header_bytes(const std::string& path, const Bytes& start);

// Of a case: an array of shape (B, 3, N, d), Q, K and V of each batch. Throws Error (bad_data): it is another array.
CaseHeader parse_npy_header(const std::string& path, const Bytes& header);

// Of an output that should be as one under the header `like`. Throws Error (bad_data): it is another array.
void require_npy_like(const std::string& path, const Bytes& header, const Bytes& like);

// As numpy.save() writes it.
Bytes npy_header_of(const Shape& shape);

} // namespace hw4
