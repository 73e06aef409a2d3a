// The contracts "bf16" and "fp16": attention on numbers of 16 bits, as tensor cores compute it. They differ in the type
// alone (src/base/float_bits.h).
//
//   input    every number of Q, K and V is rounded to the type, to nearest even. One that would become infinite is
//            refused (domain.h): |x| >= 65520 for fp16, >= 0x1.ffp127 for bf16. Numbers of a file that has elements of
//            the type are taken as they are.
//   score    products of two such numbers are exact in float32 (16 and 22 bits) unless they sink below its normal
//            numbers, as only bf16's can; their sums are float32.
//   softmax  in float32, base 2, with c = log2(e)/sqrt(d). What reaches the second product may be rounded to the type.
//   output   sums of weight times v in float32, divided by the sum of the weights, rounded to the type at the end, to
//            nearest even. Where the file has float32 elements, they hold values of the type.
//   mask     a key that a row does not see does not exist for it; a row that sees none gives O = +0.
//   lse      from the sums in float32, not rounded.
//
// An output is compared by a bound: its largest error against float64, which is computed from the rounded inputs, is at
// most what testcases/bounds.tsv says for the case, 1.2 times that of FlashAttention-2 on the same inputs, in a batch
// that fills the card. So an engine
// may choose its order of additions, its tiles and its exponential; what it chooses it has to keep: a row's bytes
// depend on its query, the keys and the values that it sees and their number alone, not on the run, the threads, the
// batch, or the rows beside it.
//
// The centre of the bound is the reference: the contract f32 (src/contracts/f32/forward.h), every operation in its
// order, on the rounded inputs, and its O rounded. Weights stay float32 there. On the CPU the kernels of f32 compute
// just that on widened numbers, and have its bytes: of fp16 all there are, of bf16 those
// that are not in src/cpu/half, which multiply such numbers themselves and are within the bound. Its error: with u =
// 2^-8 for bf16 and 2^-11 for fp16, |O| <= max|V| gives at most u*max|V|, or half the least denormal where that is
// more, for the last rounding, beside f32's own error, which is thousands of times smaller than u where scores are
// moderate.
#pragma once

#include "src/contracts/f32/forward.h"
