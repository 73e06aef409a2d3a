// How split_bf16 and split_fp16 cut the keys of a sequence into parts, which different blocks compute.
//
// Cuts are at fixed positions, so that a row's bytes depend only on the keys that it sees. The first parts are short: a
// short sequence has enough of them to keep several multiprocessors busy. Later ones are long: a long sequence has few
// partial sums besides its keys and values.
#pragma once

#include "src/base/inline.h"

namespace hw4::gpu::half_forward {

HW4_INLINE int part_of(int key) {
    if (key < 1024) return key / 256;
    if (key < 4096) return 4 + (key - 1024) / 1024;
    return 7 + (key - 4096) / 2048;
}

HW4_INLINE int first_key_of(int part) {
    if (part < 4) return part * 256;
    if (part < 7) return 1024 + (part - 4) * 1024;
    return 4096 + (part - 7) * 2048;
}

HW4_INLINE int parts_of(int keys) { return keys > 0 ? part_of(keys - 1) + 1 : 0; }

} // namespace hw4::gpu::half_forward
