// The contracts, one row each. A change to what a contract's header says changes bytes: raise the revision and make
// testcases/expected.tsv again.
#include "src/contracts/contract.h"
#include "src/contracts/f32/backward.h"
#include "src/contracts/f32/forward.h"
#include "src/contracts/fixed/forward.h"
#include "src/contracts/fixed16/forward.h"
#include "src/contracts/half/forward.h"

namespace hw4 {
namespace {

constexpr Domain kNoOverflow = {.most_score = kScoreLimit, .most_sum = kValueLimit, .most_gradient = kGradientLimit};

constexpr Scales kEveryScale = {kLeastScale, kMostScale};
// With a larger c, a number of Q times c may be beyond all floats. These are the scales of 256 to 1 columns.
constexpr Scales kScalesOfFixed = {0x1p-4, 1};

constexpr Computed kF32Computes[] = {
    {.operation = &kForward,
     .revision = 1,
     .masks = kEveryMask,
     .reference = f32_forward,
     .one = 1,
     .by_lengths = true,
     .windows = true,
     .pads = true},
    {.operation = &kBackward, .revision = 1, .masks = kEveryMask, .reference = f32_backward, .pads = true},
};
constexpr Computed kFixedComputes[] = {
    {.operation = &kForward,
     .revision = 2,
     .masks = kEveryMask,
     .reference = fixed_forward,
     .one = fixed::kOne,
     .pads = true},
};
constexpr Computed kFixed16Computes[] = {
    {.operation = &kForward,
     .revision = 1,
     .masks = kEveryMask,
     .reference = fixed16_forward,
     .one = fixed16::kOne,
     .pads = true},
};

constexpr Computed kBf16Computes[] = {
    {.operation = &kForward,
     .revision = 1,
     .masks = kEveryMask,
     .reference = bf16_forward,
     .one = 1,
     .by_lengths = true},
    {.operation = &kBackward, .revision = 1, .masks = kEveryMask, .reference = bf16_backward},
};
constexpr Computed kFp16Computes[] = {
    {.operation = &kForward,
     .revision = 1,
     .masks = kEveryMask,
     .reference = fp16_forward,
     .one = 1,
     .by_lengths = true},
    {.operation = &kBackward, .revision = 1, .masks = kEveryMask, .reference = fp16_backward},
};

constexpr const Contract* kContracts[] = {&kF32, &kFixed, &kFixed16, &kBf16, &kFp16};

} // namespace

constexpr Contract kF32 = {
    .name = "f32",
    .idea = "float32, every rounding stated",
    .compared = Compared::bytes,
    .element = Element::float32,
    .most_columns = 0,
    .scales = kEveryScale,
    .domain = kNoOverflow,
    .computes = kF32Computes,
};

constexpr Contract kFixed = {
    .name = "fixed",
    .idea = "integers of three digits for the products, float32 for the sums",
    .compared = Compared::bytes,
    .element = Element::float32,
    .most_columns = fixed::kMostColumns,
    .scales = kScalesOfFixed,
    .domain = kNoOverflow,
    .computes = kFixedComputes,
};

constexpr Contract kFixed16 = {
    .name = "fixed16",
    .idea = "as fixed with two digits: half the products, less accurate",
    .compared = Compared::bytes,
    .element = Element::float32,
    .most_columns = fixed16::kMostColumns,
    .scales = kScalesOfFixed,
    .domain = kNoOverflow,
    .computes = kFixed16Computes,
};

constexpr Contract kBf16 = {
    .name = "bf16",
    .idea = "inputs and outputs rounded to bf16, sums in float32",
    .compared = Compared::bound,
    .element = Element::bf16,
    .most_columns = 0,
    .scales = kEveryScale,
    .domain = half::domain_of(Element::bf16),
    .computes = kBf16Computes,
};

constexpr Contract kFp16 = {
    .name = "fp16",
    .idea = "as bf16 with three more bits, magnitudes up to 65504",
    .compared = Compared::bound,
    .element = Element::fp16,
    .most_columns = 0,
    .scales = kEveryScale,
    .domain = half::domain_of(Element::fp16),
    .computes = kFp16Computes,
};

Contracts contracts() { return kContracts; }

} // namespace hw4
