// What a case file begins with.
//
// Version 1, the course's: int32 B, N, d; no mask, one head, as many keys as queries. Then float32 Q, K, V of each
// batch: forward; or, where --backward asks for it, Q, K, V, dO. The file does not say which.
//
// Version 2 says what it is, in 16 int32: -2 (no B is negative); operation (0 forward, 1 backward); mask (0 none, 1
// causal); element (0 float32, 1 bf16, 2 fp16); B; heads; key-value heads, which divide the heads; N_q; N_k; d; d_v;
// window, in keys (0: none), with the causal mask alone; scale, a float64 in two fields (0: 1/sqrt(d)); lengths (0 or
// 1); 0. With lengths 1, an int32 for each batch follows the header: how many of its N_k rows of K and V are its keys.
// Then for each batch every operand of the operation, in its order, as [heads][rows][d], V and what is shaped as O with
// d_v columns.
//
// Or NumPy's header (npy.h), of an array of shape (B, 3, N, d): what version 1 says. Or one for each operand.
//
// All numbers are little-endian.
#pragma once

#include <string>
#include <vector>

#include "src/problem/problem.h"

namespace hw4 {

using Bytes = std::vector<unsigned char>;

constexpr size_t kShortHeaderBytes = 12; // of version 1, and what tells the version
constexpr size_t kLongHeaderBytes = 64;  // of version 2

// The most columns where d and d_v differ: rows get zeros as soon as they are read, and a pipe's header may claim any
// number.
constexpr int32_t kMostPadded = 1 << 16;

// How long the header is that begins so.
size_t header_bytes(const Bytes& start);

enum class HeaderForm { version_1, version_2, npy };

struct CaseHeader {
    Problem problem;
    size_t bytes = 0; // with the lengths
    HeaderForm form = HeaderForm::version_1;
    bool heads_axis = false; // outputs as arrays have an axis of heads even where there is one head
};

// Throws Error (bad_data): a field has a value that it cannot have or that is not known. `start` has at least
// header_bytes(); the problem's sizes may still be too large for any file.
CaseHeader parse_header(const std::string& path, const Bytes& start);

// The same backwards, in version 1 where that says it all, unless the long form is asked for.
Bytes header_of(const Problem& problem, bool long_form = false);

// Version 1, which does not tell the operation, of a problem with one head, as many keys as queries and no mask.
Bytes short_header_of(const Problem& problem);

// Header and data, however many bytes that would be.
__extension__ using Wide = unsigned __int128;
Wide file_bytes(const CaseHeader& header);
std::string decimal(Wide value);

// "B = 2, N = 128, d = 64"
std::string describe(const CaseHeader& header);

// What the header says when its bytes are taken in the other order; no batches where that makes no sense.
CaseHeader swapped_header(const Bytes& start);

} // namespace hw4
