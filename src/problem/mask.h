// The keys that a query sees. Keys that it does not see do not exist for it; each contract's forward.h says what that
// means for the arithmetic.
//
// causal: query i sees the keys 0 to i + N_k - N_q, so the last query sees all of them, whether there are more queries
// or more keys (aligned at the bottom right). With more queries than keys the first N_q - N_k see none: O is +0.
//
// A window of W keys, with the causal mask only: a query sees the last W of these keys, including its own.
#pragma once

#include <cstdint>
#include <limits>

#include "src/base/inline.h"

namespace hw4 {

enum class Mask { none, causal };

inline constexpr Mask kNoMask[] = {Mask::none}; // for code that supports no mask
inline constexpr Mask kEveryMask[] = {Mask::none, Mask::causal};

constexpr const char* name_of(Mask mask) { return mask == Mask::none ? "none" : "causal"; }

inline constexpr int kNoWindow = std::numeric_limits<int>::max(); // no case has more keys

// The end of the keys that a query sees, as a linear function: query i sees keys before `first + i * more`, none where
// that is below 0. It sees the last `window` of them.
struct VisibleKeys {
    int64_t first;
    int more;
    int window = kNoWindow;

    HW4_INLINE int64_t of(int64_t query) const {
        const int64_t seen = first + query * more;
        return seen > 0 ? seen : 0;
    }
    // The first key that the query sees.
    HW4_INLINE int64_t from(int64_t query) const {
        const int64_t hidden = of(query) - window;
        return hidden > 0 ? hidden : 0;
    }
};

HW4_INLINE int window_or_none(int64_t window) {
    return window == 0 || window > kNoWindow ? kNoWindow : static_cast<int>(window);
}

HW4_INLINE VisibleKeys sight_of(Mask mask, int64_t queries, int64_t keys, int64_t window = 0) {
    return mask == Mask::none ? VisibleKeys{keys, 0} : VisibleKeys{1 + keys - queries, 1, window_or_none(window)};
}

HW4_INLINE int64_t visible_keys(Mask mask, int64_t queries, int64_t keys, int64_t query) {
    return sight_of(mask, queries, keys).of(query);
}

// The number of queries that see no key, always the first ones.
HW4_INLINE int64_t blind_queries(Mask mask, int64_t queries, int64_t keys) {
    return mask == Mask::none || queries < keys ? 0 : queries - keys;
}

// The number of pairs of a query and a key that it sees. A double, since there may be more than 2^63. A window of W
// keys hides the pairs that the causal mask has without the last W keys.
inline double visible_pairs(Mask mask, int64_t queries, int64_t keys, int64_t window = 0) {
    if (window > 0)
        return visible_pairs(mask, queries, keys) - (keys > window ? visible_pairs(mask, queries, keys - window) : 0);
    const auto seeing = static_cast<double>(queries - blind_queries(mask, queries, keys));
    const double hidden_from_each = mask == Mask::none ? 0 : (seeing - 1) / 2; // on average
    return seeing * (static_cast<double>(keys) - hidden_from_each);
}

} // namespace hw4
