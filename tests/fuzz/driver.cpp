// The entry that libFuzzer looks for, around the target that the Makefile names.
#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    hw4::fuzz::HW4_FUZZ_TARGET(data, size);
    return 0;
}
