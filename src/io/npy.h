// NumPy's own file format, version 1: a header with element, order and shape as Python text, then the numbers. Only
// little-endian arrays in C order are read and written, of float32 and, where allowed, float16.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/io/case_header.h"

namespace hw4 {

using Shape = std::vector<int64_t>;

// Whether the first bytes begin such a file.
bool is_npy(const Bytes& start);

// The length of the header that begins so; `start` has at least 10 bytes. Throws Error (bad_data).
size_t npy_header_bytes(const std::string& path, const Bytes& start);

// Reads the header of a case: an array of shape (B, 3, N, d), Q, K and V of each batch. Throws Error (bad_data) for
// another array.
CaseHeader parse_npy_header(const std::string& path, const Bytes& header);

struct NpyHeader {
    std::string path;
    Bytes header;
};

// A case of three arrays, Q, K, V, or four, with dO: each of shape (B, heads, N, d), or all of (B, N, d), all
// float32 or all float16. K and V may have fewer heads and another N. Throws Error (bad_data): the arrays are no case.
CaseHeader parse_npy_headers(const std::vector<NpyHeader>& arrays);

struct NpyTokens {
    int bytes = 2; // per token: 2 or 4
    int64_t count = 0;
};

// Reads the header of a text of tokens: an array of shape (N,), of uint16 or uint32. Throws Error (bad_data).
NpyTokens parse_npy_tokens(const std::string& path, const Bytes& header);

// Compares an output's header with the header `like`. Throws Error (bad_data) for another array.
void require_npy_like(const std::string& path, const Bytes& header, const Bytes& like);

// The header as numpy.save() writes it; not for bf16, which NumPy lacks.
Bytes npy_header_of(const Shape& shape, Element element = Element::float32);

// The form of an output file, which its name determines: NAME.gz is gzip, NAME.npy NumPy's format, with the shape; any
// other name has the numbers alone.
struct OutputForm {
    bool gzip = false;
    Bytes head; // written before the numbers
};

// The form for O, or for dQ, dK, dV of each batch; for `only` one of the outputs where it is not null. `heads_axis`:
// the array has an axis of heads even for one head. Throws Error (usage) for outputs that are not one NumPy array.
OutputForm form_of_output(const std::string& name, const Problem& problem, bool heads_axis = false,
                          const Operand* only = nullptr);

// The form for one float32 per row of O.
OutputForm form_of_rows(const std::string& name, const Problem& problem, bool heads_axis = false);

} // namespace hw4
