// Few query rows and many keys: threads divide the keys. The sums do not depend on where they cut: a segment of 64 keys
// has sums of its own, and the totals add them in order.
//
// A thread takes a part of 512 keys at a time and assumes that the rows' references are 0 there, as they are on
// ordinary data. The largest scores of all tiles then show which reference each part should have started with; a part
// that assumed another one is computed again. Finally the sums of all parts are added in the contract's order.
#pragma once

#include <vector>

#include "src/cpu/kernels.h"

namespace hw4::cpu {

// Whether dividing keys pays: fewer blocks of rows than threads, several parts of keys, and at most 16 rows for each
// head of keys. With more rows the sums of all segments take long: with 40 rows and 131072 keys two threads of a Xeon
// with AVX-512 needed 60 ms, one thread without them 47 ms. One row takes 26 ms, not 46, 16 rows 39, not 47.
bool divides_keys(const BlockKernel& kernel, const Problem& problem, int64_t blocks, int threads);

// Computes the blocks; all of their rows see a key.
void attend_by_keys(const BlockKernel& kernel, const std::vector<RowBlock>& blocks, const Launch& launch);

} // namespace hw4::cpu
