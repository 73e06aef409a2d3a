// The header of a case file.
//
// Version 1, the course's: int32 B, N, d; no mask, one head, as many keys as queries. Then float32 Q, K, V of each
// batch: forward; or, where --backward asks for it, Q, K, V, dO. The file does not tell which.
//
// Version 2 has 16 int32: -2 (no B is negative); operation (0 forward, 1 backward); mask (0 none, 1 causal); element (0
// float32, 1 bf16, 2 fp16); B; heads; key-value heads, which divide the heads; N_q; N_k; d; d_v; window, in keys (0:
// none), with the causal mask alone; scale, a float64 in two fields (0: 1/sqrt(d)); lengths (0 or 1); 0. With lengths
// 1, an int32 for each batch follows the header: how many of its N_k rows of K and V are its keys. Then for each batch
// every operand of the operation, in order, as [heads][rows][d]; V and operands shaped like O have d_v columns.
//
// Or NumPy's header (npy.h), for an array of shape (B, 3, N, d) with version 1's content, or one for each operand.
//
// All numbers are little-endian.
#pragma once

#include <string>
#include <vector>

#include "src/problem/problem.h"

namespace hw4 {

using Bytes = std::vector<unsigned char>;

constexpr size_t kShortHeaderBytes = 12; // version 1; the version is within them
constexpr size_t kLongHeaderBytes = 64;  // version 2

// The most columns where d and d_v differ: rows get zeros as soon as they are read, and a pipe's header may claim any
// number.
constexpr int32_t kMostPadded = 1 << 16;

// The length of the header that begins so.
size_t header_bytes(const Bytes& start);

enum class HeaderForm { version_1, version_2, npy };

struct CaseHeader {
    Problem problem;
    size_t bytes = 0; // including the lengths
    HeaderForm form = HeaderForm::version_1;
    bool heads_axis = false; // array outputs have an axis of heads even for one head
};

// Throws Error (bad_data) where a field has an impossible or unknown value. `start` has at least header_bytes(); the
// problem's sizes may still be too large for any file.
CaseHeader parse_header(const std::string& path, const Bytes& start);

// The reverse, in version 1 where that suffices, unless the long form is asked for.
Bytes header_of(const Problem& problem, bool long_form = false);

// Version 1, without the operation, for a problem with one head, as many keys as queries and no mask.
Bytes short_header_of(const Problem& problem);

// The size of header and data, however large.
__extension__ using Wide = unsigned __int128;
Wide file_bytes(const CaseHeader& header);
std::string decimal(Wide value);

// "B = 2, N = 128, d = 64"
std::string describe(const CaseHeader& header);

// The header with its bytes swapped; no batches where that is not valid.
CaseHeader swapped_header(const Bytes& start);

} // namespace hw4
