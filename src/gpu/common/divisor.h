// Division by a constant as a multiplication: a GPU has no integer division. No CUDA, so it can be tested anywhere.
#pragma once

#include <cstdint>

#include "src/base/inline.h"

namespace hw4::gpu {

class Divisor {
public:
    // `number` is at least 1.
    explicit Divisor(uint32_t number) : number_(number), inverse_(number > 1 ? ~uint64_t{0} / number + 1 : 0) {}

    HW4_INLINE uint32_t number() const { return number_; }

    // The inverse is less than 1 too large, so the product's error is less than n / 2^64, below 1 / number.
    HW4_INLINE uint32_t quotient(uint32_t n) const {
        if (number_ == 1) return n;
#if defined(__CUDA_ARCH__)
        return static_cast<uint32_t>(__umul64hi(n, inverse_));
#else
        return static_cast<uint32_t>((static_cast<unsigned __int128>(inverse_) * n) >> 64);
#endif
    }

    HW4_INLINE uint32_t remainder(uint32_t n) const { return n - quotient(n) * number_; }

private:
    uint32_t number_;
    uint64_t inverse_; // 2^64 / number, rounded up
};

} // namespace hw4::gpu
