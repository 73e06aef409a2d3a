// NumPy's own file format, version 1: a header that says element, order and shape in Python's words, then the numbers.
// Only arrays of float32 and, where that is said, float16 are read and written, little-endian and in C order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/io/case_header.h"

namespace hw4 {

using Shape = std::vector<int64_t>;

// Whether the first bytes are those of such a file.
bool is_npy(const Bytes& start);

// How long the header is that begins so; `start` has at least 10 bytes. Throws Error (bad_data).
size_t npy_header_bytes(const std::string& path, const Bytes& start);

// Reads the header of a case: an array of shape (B, 3, N, d), Q, K and V of each batch. Throws Error (bad_data): the
// file is another array.
CaseHeader parse_npy_header(const std::string& path, const Bytes& header);

struct NpyHeader {
    std::string path;
    Bytes header;
};

// A case of three arrays, Q, K, V, or four, dO too: each of shape (B, heads, N, d), or all of (B, N, d), of float32 or
// all of float16. K and V may have fewer heads and another N. Throws Error (bad_data): they are no case.
CaseHeader parse_npy_headers(const std::vector<NpyHeader>& arrays);

struct NpyTokens {
    int bytes = 2; // of a token: 2 or 4
    int64_t count = 0;
};

// Reads the header of a text in tokens: an array of shape (N,), of uint16 or uint32. Throws Error (bad_data).
NpyTokens parse_npy_tokens(const std::string& path, const Bytes& header);

// Compares an output's header with the header `like`. Throws Error (bad_data): the output is another array.
void require_npy_like(const std::string& path, const Bytes& header, const Bytes& like);

// As numpy.save() writes it; not of bf16, which NumPy lacks.
Bytes npy_header_of(const Shape& shape, Element element = Element::float32);

// How an output's numbers are put into a file, which its name says: NAME.gz is gzip, NAME.npy NumPy's format, with the
// shape; any other has the numbers alone.
struct OutputForm {
    bool gzip = false;
    Bytes head; // before the numbers
};

// For O, or for dQ, dK, dV of each batch; for `only` one of the outputs where it is not null. `heads_axis`: the array
// has an axis of heads even where there is one head. Throws Error (usage) for outputs that are not one array of NumPy.
OutputForm form_of_output(const std::string& name, const Problem& problem, bool heads_axis = false,
                          const Operand* only = nullptr);

// For a float32 for every row of O.
OutputForm form_of_rows(const std::string& name, const Problem& problem, bool heads_axis = false);

} // namespace hw4
