// How split_bf16 and split_fp16 cut the keys of a sequence into parts, which different blocks compute.
//
// Cuts are at fixed positions, so that a row's bytes depend only on the keys that it sees. The first parts are short: a
// short sequence has enough of them to keep several multiprocessors busy. Later ones are long: a long sequence has few
// partial sums besides its keys and values.
#pragma once

#include "src/base/inline.h"

namespace hw4::gpu::half_forward {

HW4_INLINE int part_of(int key) {
    if (key < 1024) return key / 512;
    if (key < 4096) return 2 + (key - 1024) / 1024;
    if (key < 16384) return 5 + (key - 4096) / 2048;
    return 11 + (key - 16384) / 4096;
}

HW4_INLINE int first_key_of(int part) {
    if (part < 2) return part * 512;
    if (part < 5) return 1024 + (part - 2) * 1024;
    if (part < 11) return 4096 + (part - 5) * 2048;
    return 16384 + (part - 11) * 4096;
}

HW4_INLINE int parts_of(int keys) { return keys > 0 ? part_of(keys - 1) + 1 : 0; }

} // namespace hw4::gpu::half_forward
